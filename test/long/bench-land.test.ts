// `sluice bench land` as a user runs it: routes with known landing shares, a devnode behind them.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { encodeBase58 } from '../../src/chain/solana/base58.ts'
import { Keypair } from '../../src/chain/solana/keypair.ts'
import type { Result } from '../../src/loadtest/result.ts'
import { runCommand } from '../testkit/command.ts'
import { type Devnode, startDevnode } from '../testkit/devnode.ts'
import { LandingSink } from '../testkit/landing-sink.ts'
import { startServer } from '../testkit/server.ts'
import { isSlice } from '../testkit/slice.ts'

const tipAccount = encodeBase58(new Keypair(new Uint8Array(32).fill(2)).publicKey)
const out = mkdtempSync(join(tmpdir(), 'sluice-land-'))
const slotMs = 200
let node: Devnode
beforeAll(async () => {
  node = await startDevnode({ slotMs })
})
afterAll(async () => {
  await node.dispose()
  rmSync(out, { recursive: true, force: true })
})

async function land(...words: string[]) {
  const common = [`--rpc=${node.url('rpc')}`, `--out=${out}`, '--output=json']
  const ran = await runCommand(['bench', 'land', ...words, ...common])
  expect(ran.stderr).toBe('')
  return { ...ran, result: ran.json() as unknown as Result & { path: string } }
}

async function ask<T>(method: string, params: readonly unknown[]): Promise<T> {
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params })
  const headers = { 'content-type': 'application/json' }
  const answer = await fetch(node.url('rpc'), { method: 'POST', headers, body })
  return ((await answer.json()) as { result: { value: T } }).result.value
}

function balance(address: string): Promise<number> {
  return ask('getBalance', [address, { commitment: 'processed' }])
}

/** The slots in which the node has these transactions, in ascending order. */
async function slotsOf(signatures: readonly string[]): Promise<number[]> {
  const statuses = await ask<({ slot: number } | null)[]>('getSignatureStatuses', [signatures])
  return statuses.map((status) => status!.slot).sort((a, b) => a - b)
}

interface LandDetail {
  readonly routes: readonly { readonly label: string }[]
  readonly sent: readonly { route: number; slot: number; landedSlot: number | null }[]
}

function figure({ figures }: Result, name: string, of: string) {
  return figures.find((one) => one.name === name && one.of.includes(of))!
}

describe('sluice bench land', () => {
  test.each(isSlice ? ['geyser'] : ['geyser', 'websocket'])(
    'ranks routes that land nine, six and three of ten on %s',
    async (kind) => {
      const shares = { good: 0.9, fair: 0.6, poor: 0.3 }
      const sinks = await Promise.all(
        Object.values(shares).map((share, index) =>
          LandingSink.open(node.url('rpc'), { share, seed: index + 41, tipAccount }),
        ),
      )
      const before = await balance(tipAccount)
      const [good, fair, poor] = sinks.map(({ url }) => url)
      const { code, result } = await land(
        `--to=${poor},name=poor,${good},name=good,${fair},name=fair`,
        `--watch=${kind}=${node.url(kind === 'geyser' ? 'grpc' : 'websocket')}`,
        ...['--count=240', '--rate=80', '--wait=8s', '--seed=4'],
      )
      for (const sink of sinks) sink.close()
      expect(code).toBe(0)
      expect(result).toMatchObject({ verb: 'land', partial: null, fit: true })
      const { routes, sent } = result.detail as unknown as LandDetail
      for (const [index, [name, share]] of Object.entries(shares).entries()) {
        const landed = figure(result, 'landed', name)
        expect(sinks[index]!.received).toBe(80)
        expect(landed.value).toBe(sinks[index]!.forwarded / 80)
        expect(landed.low).toBeLessThan(share)
        expect(landed.high).toBeGreaterThan(share)
        expect(figure(result, 'cost-per-landed', name).value).toBe(1_005_000)
        const ownRoute = routes.findIndex(({ label }) => label.includes(name))
        const own = sent.filter(
          ({ route, landedSlot }) => route === ownRoute && landedSlot !== null,
        )
        const landedSlots = own.map(({ landedSlot }) => landedSlot!).sort((a, b) => a - b)
        expect(landedSlots).toEqual(await slotsOf(sinks[index]!.signatures))
        const took = own.map(({ slot, landedSlot }) => Math.max(0, landedSlot! - slot))
        const p90 = figure(result, 'slots-p90', name).value!
        expect(took).toContain(p90)
        expect(took.filter((slots) => slots <= p90).length).toBeGreaterThanOrEqual(
          0.9 * took.length,
        )
        expect(took.filter((slots) => slots < p90).length).toBeLessThanOrEqual(0.9 * took.length)
        // No transaction is waited for longer than --wait.
        expect(Math.max(...took)).toBeLessThanOrEqual(8000 / slotMs)
      }
      const ranked = ['good', 'fair', 'poor'].map((name) => figure(result, 'landed', name).value!)
      expect(ranked).toEqual(ranked.toSorted((a, b) => b - a))
      expect(figure(result, 'landed', 'good').low).toBeGreaterThan(
        figure(result, 'landed', 'poor').high!,
      )
      const forwarded = sinks.reduce((sum, sink) => sum + sink.forwarded, 0)
      expect(figure(result, 'spent', '').value).toBe(forwarded * 1_005_000)
      expect((await balance(tipAccount)) - before).toBe(forwarded * 1_000_000)
      expect(JSON.parse(readFileSync(result.path, 'utf8'))).toMatchObject({ verb: 'land' })
    },
  )

  test('stops at the limit and keeps what it has', async () => {
    const { code, result } = await land(
      `--to=${node.url('rpc')}`,
      `--watch=geyser=${node.url('grpc')}`,
      ...['--count=50', '--rate=50', '--wait=20s', '--tip=0', '--spend-max=0.0001'],
    )
    expect(code).toBe(1)
    expect(result.partial).toBe('stopped at --spend-max after 20 of 50 transactions')
    expect(figure(result, 'sent', 'tpu').value).toBe(20)
    expect(figure(result, 'spent', '').value).toBe(100_000)
  })

  test('takes the tip accounts of our TPU Sender and lands there', async () => {
    const server = await startServer()
    const route = [`--to=${server.url('tpu')}`, `--watch=geyser=${server.url('grpc')}`]
    const alone = await runCommand(['bench', 'land', ...route])
    expect(alone.code).toBe(1)
    expect(alone.stderr).toMatch(/refused requestAirdrop: .*; give --rpc, a node that answers/)
    const ran = await runCommand([
      ...[
        'bench',
        'land',
        `--to=${server.url('tpu')}`,
        `--rpc=${server.url('rpc')},token=${server.token}`,
      ],
      ...[`--watch=geyser=${server.url('grpc')},token=${server.token}`, '--count=10', '--rate=20'],
      ...[`--out=${out}`, '--output=json', '--wait=30s'],
    ])
    await server.dispose()
    expect(ran.stderr).toBe('')
    const result = ran.json() as unknown as Result
    expect(result.partial).toBeNull()
    expect(figure(result, 'landed', 'tpu').value).toBe(1)
  })

  test.each([
    ['a route without tip accounts', [], 'names no tip accounts: give --tip-account, or --tip 0'],
    [
      'an empty wallet',
      ['--tip=0', '--keypair='],
      'shows 0 lamports in the wallet; the test may need',
    ],
  ])('refuses %s', async (_, flags, message) => {
    const path = join(out, 'empty.json')
    writeFileSync(path, JSON.stringify([...new Keypair(new Uint8Array(32).fill(6)).secretKey]))
    const words = flags.map((flag) => (flag === '--keypair=' ? `--keypair=${path}` : flag))
    const route = [`--to=${node.url('rpc')}`, `--watch=geyser=${node.url('grpc')}`]
    const ran = await runCommand(['bench', 'land', ...route, ...words])
    expect(ran.code).toBeGreaterThan(0)
    expect(ran.stderr).toContain(message)
  })
})
