// The devnode as a gateway owns it: one child process with ports, log lines, stats and meters.
import { randomBytes } from 'node:crypto'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { mkdtempSync, renameSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { systemClock } from '../../src/base/clock.ts'
import type { Fault } from '../../src/base/errors.ts'
import { type Log, silentLog } from '../../src/base/telemetry/log.ts'
import { Meters } from '../../src/base/telemetry/meters.ts'
import { decodeBase58, encodeBase58 } from '../../src/chain/solana/base58.ts'
import { flawOf, flaws, slotOf } from '../../src/chain/solana/shred.ts'
import { LeaderSignatures } from '../../src/chain/solana/shred-signature.ts'
import { DevnodeProcess } from '../../src/devnode/process.ts'
import { until } from '../testkit/until.ts'

const folder = mkdtempSync(join(tmpdir(), 'sluice-devnode-'))
const meters = new Meters()
const faults: Fault[] = []
const lines: string[] = []
const note = (msg: string) => void lines.push(msg)
const log: Log = { ...silentLog, info: note, warn: note, error: note, area: () => log }
const options = {
  ledger: join(folder, 'chain'),
  files: null,
  isReset: false,
  genesis: null,
  warpSlot: null,
  host: '127.0.0.1',
  rpcPort: 0,
  wsPort: 0,
  grpcPort: 0,
  secret: null,
  version: '0.0.0',
  shreds: null,
  chain: {
    traffic: 30,
    agave: '4.3' as const,
    slotMs: 40,
    slotsPerEpoch: 432_000,
    historySlots: 1_000,
    historyBytes: 64 * 1024 * 1024,
    snapshotSlots: 50,
    airdropLamports: 1_000_000_000,
  },
}

let node: DevnodeProcess
beforeAll(async () => {
  const onDown = (fault: Fault) => void faults.push(fault)
  node = await DevnodeProcess.start(options, { clock: systemClock, log, meters, onDown })
})
afterAll(async () => {
  await node?.stop()
  rmSync(folder, { recursive: true, force: true })
})

async function meter(name: string): Promise<number> {
  const { body } = await meters.render('text')
  const line = body.split('\n').find((text) => text.startsWith(`${name} `))
  return Number(line?.split(' ')[1])
}

// biome-ignore lint/suspicious/noExplicitAny: results of many methods.
async function call(method: string, ...params: unknown[]): Promise<any> {
  const { host, port } = node.addresses.rpc
  const response = await fetch(`http://${host}:${port}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
  })
  const { result } = (await response.json()) as { result: unknown }
  return result
}

async function killed(signal: NodeJS.Signals): Promise<void> {
  const before = node.pid
  process.kill(before, signal)
  await until(() => !node.isUp, 'the parent to see that it is gone')
  await until(() => node.isUp, 'a new process')
  expect(node.pid).not.toBe(before)
}

/** Finalized blocks by slot, and the balances of airdrops that are finalized. */
async function finalizedState(keys: readonly string[]) {
  const blocks = new Map<number, string>()
  const newest = await call('getSlot', { commitment: 'finalized' })
  for (let slot = Math.max(1, newest - 30); slot <= newest; slot++)
    blocks.set(
      slot,
      (await call('getBlock', slot, { transactionDetails: 'signatures' }))?.blockhash,
    )
  return { blocks, accounts: await finalizedLamports(keys) }
}

async function finalizedLamports(keys: readonly string[]): Promise<number[]> {
  const { value } = await call('getMultipleAccounts', keys, { commitment: 'finalized' })
  return (value as ({ lamports: number } | null)[]).map((found) => found?.lamports ?? 0)
}

/** Kills the node under load: everything that was finalized is there afterwards. */
async function losesNothing(signal: NodeJS.Signals): Promise<void> {
  const keys: string[] = []
  let isLoaded = true
  const load = async () => {
    while (isLoaded) {
      const key = encodeBase58(randomBytes(32))
      // Those in flight when the process dies may fail.
      const sent = await call('requestAirdrop', key, 1_000_000).catch(() => null)
      if (sent !== null && keys.length < 100) keys.push(key)
      // Load, and not all that the machine has: what is tested gets its turn, too.
      await new Promise((resolve) => setTimeout(resolve, 10))
    }
  }
  const loads = [load(), load()]
  await until(() => keys.length >= 100, 'a load of airdrops')
  await until(
    async () => (await finalizedLamports(keys)).some((lamports) => lamports > 0),
    'finalized airdrops',
  )
  const before = await finalizedState(keys)
  await killed(signal)
  const after = await finalizedState(keys)
  isLoaded = false
  await Promise.all(loads)
  for (const [slot, blockhash] of before.blocks)
    expect((await call('getBlock', slot, { transactionDetails: 'signatures' }))?.blockhash).toBe(
      blockhash,
    )
  before.accounts.forEach((lamports, index) => {
    if (lamports > 0) expect(after.accounts[index]).toBe(lamports)
  })
}

test('reports its slots, its health and the meters of the chain', async () => {
  expect(node.isUp).toBe(true)
  await until(() => node.stats.slots.finalized > 40, 'reports of finalized slots')
  const { processed, confirmed, finalized } = node.stats.slots
  expect(processed).toBe(confirmed)
  expect(confirmed).toBeGreaterThan(finalized)
  expect(await meter('sluice_chain_slot')).toBe(processed)
  expect(await meter('sluice_chain_accounts')).toBeGreaterThan(50)
  expect(await meter('sluice_chain_history_bytes')).toBeGreaterThan(0)
  // Both may take longer than the first slots.
  const isAbove = (name: string, count: number) => async () => (await meter(name)) > count
  await until(isAbove('sluice_chain_snapshot_seconds_count', 0), 'a snapshot')
  await until(isAbove('sluice_chain_transactions_total{outcome="landed"}', 50), 'traffic')
  expect(await meter('sluice_chain_executor_up')).toBe(1)
})

test('comes back from its journal on the same ports after kill -9, with all that was finalized', async () => {
  const { rpc, ws, grpc, identity } = node.addresses
  const landed = await meter('sluice_chain_transactions_total{outcome="landed"}')
  await losesNothing('SIGKILL')
  expect(node.addresses).toMatchObject({ rpc, ws, grpc, identity })
  expect(await meter('sluice_chain_executor_restarts_total')).toBe(1)
  await until(
    async () => (await meter('sluice_chain_transactions_total{outcome="landed"}')) > landed,
    'the counter to go on from where it was',
  )
  expect(lines).toContain('devnode restarted from its journal')
  expect(faults).toEqual([])
})

test('sends shreds that its identity signed, also after SIGABRT, which loses nothing', async () => {
  const socket = createSocket('udp4')
  const shreds: Buffer[] = []
  socket.on('message', (shred) => shreds.push(shred))
  socket.bind(0, '127.0.0.1')
  await once(socket, 'listening')
  const { port } = socket.address()
  await node.sendShreds({ host: '127.0.0.1', port, version: 7 })
  await until(() => new Set(shreds.map(slotOf)).size > 2, 'shreds of some slots')
  await losesNothing('SIGABRT')
  shreds.length = 0
  await until(() => new Set(shreds.map(slotOf)).size > 2, 'shreds of the new process')
  socket.close()
  const leader = new LeaderSignatures([decodeBase58(node.addresses.identity)!])
  for (const shred of shreds) {
    expect(flawOf(shred, 0, shred.length, 7)).toBe(flaws.none)
    expect(leader.check(shred)).toBe(true)
  }
})

test("writes the node's log lines into its parent's log", async () => {
  // A snapshot without a folder fails, which the node survives and logs.
  renameSync(options.ledger, join(folder, 'moved'))
  await until(() => lines.includes('chain snapshot failed'), 'the line of the child')
  expect(node.isUp).toBe(true)
})
