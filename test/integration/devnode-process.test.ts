// The devnode as a gateway owns it: one child process with ports, log lines, stats and meters.
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { systemClock } from '../../src/base/clock.ts'
import type { Fault } from '../../src/base/errors.ts'
import { DevnodeProcess } from '../../src/devnode/process.ts'
import { decodeBase58 } from '../../src/solana/base58.ts'
import { flawOf, flaws, slotOf } from '../../src/solana/shred.ts'
import { LeaderSignatures } from '../../src/solana/shred-signature.ts'
import { type Log, silentLog } from '../../src/telemetry/log.ts'
import { Meters } from '../../src/telemetry/meters.ts'
import { until } from '../support/until.ts'

const folder = mkdtempSync(join(tmpdir(), 'sluice-devnode-'))
const meters = new Meters()
const faults: Fault[] = []
const lines: string[] = []
const note = (msg: string) => void lines.push(msg)
const log: Log = { ...silentLog, info: note, warn: note, error: note, area: () => log }
const options = {
  ledger: join(folder, 'chain'),
  isReset: false,
  host: '127.0.0.1',
  rpcPort: 0,
  wsPort: 0,
  grpcPort: 0,
  version: '0.0.0',
  shreds: null,
  chain: {
    traffic: 100,
    slotMs: 40,
    historySlots: 1_000,
    historyBytes: 64 * 1024 * 1024,
    snapshotSlots: 20,
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

async function finalizedSlot(): Promise<number> {
  const { host, port } = node.addresses.rpc
  const response = await fetch(`http://${host}:${port}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: '{"jsonrpc":"2.0","id":1,"method":"getSlot","params":[{"commitment":"finalized"}]}',
  })
  const { result } = (await response.json()) as { result: number }
  return result
}

test('reports its slots, its health and the meters of the chain', async () => {
  expect(node.stats.slotsBehind).toBe(0)
  await until(() => node.stats.slots.finalized > 40, 'reports of finalized slots')
  const { processed, confirmed, finalized } = node.stats.slots
  expect(processed).toBeGreaterThan(confirmed)
  expect(confirmed).toBeGreaterThan(finalized)
  expect(await meter('sluice_chain_slot')).toBe(processed)
  expect(await meter('sluice_chain_accounts')).toBeGreaterThan(50)
  expect(await meter('sluice_chain_history_bytes')).toBeGreaterThan(0)
  expect(await meter('sluice_chain_snapshot_seconds_count')).toBeGreaterThan(0)
  expect(await meter('sluice_chain_transactions_total{outcome="landed"}')).toBeGreaterThan(50)
  expect(await meter('sluice_chain_executor_up')).toBe(1)
})

test('comes back from its journal on the same ports after kill -9', async () => {
  const { rpc, ws, grpc, identity } = node.addresses
  const before = node.pid
  const finalized = await finalizedSlot()
  const landed = await meter('sluice_chain_transactions_total{outcome="landed"}')
  process.kill(before, 'SIGKILL')
  await until(() => node.stats.slotsBehind === null, 'the parent to see that it is gone')
  await until(() => node.addresses.pid !== before, 'a new process')
  expect(node.addresses).toMatchObject({ rpc, ws, grpc, identity })
  expect(await finalizedSlot()).toBeGreaterThanOrEqual(finalized)
  expect(await meter('sluice_chain_executor_restarts_total')).toBe(1)
  await until(
    async () => (await meter('sluice_chain_transactions_total{outcome="landed"}')) > landed,
    'the counter to go on from where it was',
  )
  expect(lines).toContain('devnode restarted from its journal')
  expect(faults).toEqual([])
})

test('sends shreds that its identity signed, also after a restart', async () => {
  const socket = createSocket('udp4')
  const shreds: Buffer[] = []
  socket.on('message', (shred) => shreds.push(shred))
  socket.bind(0, '127.0.0.1')
  await once(socket, 'listening')
  const { port } = socket.address()
  await node.sendShreds({ host: '127.0.0.1', port, version: 7 })
  await until(() => new Set(shreds.map(slotOf)).size > 2, 'shreds of some slots')
  const before = node.pid
  process.kill(before, 'SIGKILL')
  await until(() => node.addresses.pid !== before, 'a new process')
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
  rmSync(options.ledger, { recursive: true })
  await until(() => lines.includes('chain snapshot failed'), 'the line of the child')
  expect(node.stats.slotsBehind).toBe(0)
})
