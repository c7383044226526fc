// A cluster in one process: each node has its own identity, ports, leader windows and view of the
// chain, and the others do not notice when one stops.
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { WebSocket } from 'ws'
import { silentLog } from '../../src/base/telemetry/log.ts'
import type { FaultName } from '../../src/devnode/cluster/plan.ts'
import { usualFaults } from '../../src/devnode/cluster/plan.ts'
import { type RunningDevnode, startDevnode } from '../../src/devnode/node.ts'
import { quickSection } from '../testkit/chain-stage.ts'
import { until } from '../testkit/until.ts'

const free = { rpcPort: 0, wsPort: 0, grpcPort: 0 }
const folders: string[] = []
const running: RunningDevnode[] = []

async function start(options: {
  readonly nodes?: number
  readonly faults?: readonly FaultName[]
  readonly isAlpenglow?: boolean
  readonly slotMs?: number
}): Promise<RunningDevnode> {
  const { nodes = 4, faults = usualFaults, isAlpenglow = false, slotMs = 60 } = options
  const ledger = mkdtempSync(join(tmpdir(), 'sluice-cluster-'))
  folders.push(ledger)
  const node = await startDevnode(
    {
      ledger: join(ledger, 'chain'),
      files: null,
      isReset: false,
      genesis: null,
      warpSlot: null,
      host: '127.0.0.1',
      ...free,
      cluster: {
        seed: 11,
        isSeeded: true,
        faults,
        isAlpenglow,
        peers: Array.from({ length: nodes - 1 }, () => free),
      },
      secret: null,
      chain: { ...quickSection, slotMs, traffic: 30 },
      shreds: null,
      version: '0.0.0',
    },
    {
      log: silentLog,
      report() {},
      onDown(fault) {
        throw fault
      },
    },
  )
  running.push(node)
  return node
}

// biome-ignore lint/suspicious/noExplicitAny: a test looks at whatever came
async function call(port: number, method: string, ...params: unknown[]): Promise<any> {
  const response = await fetch(`http://127.0.0.1:${port}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
  })
  const { result, error } = (await response.json()) as { result?: unknown; error?: unknown }
  if (error !== undefined) throw new Error(JSON.stringify(error))
  return result
}

const portsOf = ({ addresses }: RunningDevnode) =>
  [addresses, ...addresses.peers].map(({ rpc }) => rpc.port)

async function stopAll(): Promise<void> {
  for (const node of running.splice(0)) await node.stop()
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true })
}

describe('a cluster of four nodes', () => {
  let node: RunningDevnode
  let ports: number[]
  beforeAll(async () => {
    node = await start({})
    ports = portsOf(node)
    await until(async () => (await call(ports[0]!, 'getSlot')) > 8, 'finalized blocks')
  })
  afterAll(stopAll)

  it('has its own identity at every node, which all of them list', async () => {
    const identities = [node.addresses, ...node.addresses.peers].map(({ identity }) => identity)
    expect(new Set(identities).size).toBe(4)
    for (const [index, port] of ports.entries()) {
      expect(await call(port, 'getIdentity')).toEqual({ identity: identities[index] })
      const listed = await call(port, 'getClusterNodes')
      expect(listed.map((one: { pubkey: string }) => one.pubkey)).toEqual(identities)
      expect(listed.map((one: { rpc: string }) => Number(one.rpc.split(':')[1]))).toEqual(ports)
    }
  })

  it('shares the leader schedule and the genesis, in windows of four slots', async () => {
    const [first, ...others] = await Promise.all(
      ports.map(async (port) => [
        await call(port, 'getGenesisHash'),
        await call(port, 'getSlotLeaders', 0, 400),
      ]),
    )
    for (const other of others) expect(other).toEqual(first)
    const leaders = first![1] as string[]
    expect(new Set(leaders).size).toBe(4)
    for (const at of [0, 40, 80])
      expect(new Set(leaders.slice(at, at + 4)).size, `window of ${at}`).toBe(1)
    const schedule = await call(ports[1]!, 'getLeaderSchedule')
    for (const leader of new Set(leaders)) {
      const led = leaders.flatMap((one, slot) => (one === leader ? [slot] : []))
      expect(schedule[leader].slice(0, led.length)).toEqual(led)
    }
    const own = await call(ports[1]!, 'getLeaderSchedule', null, { identity: leaders[0] })
    expect(own).toEqual({ [leaders[0]!]: schedule[leaders[0]!] })
    const production = (await call(ports[0]!, 'getBlockProduction')).value
    const slots = Object.values<[number, number]>(production.byIdentity)
    const led = slots.reduce((sum, [count]) => sum + count, 0)
    const made = slots.reduce((sum, [, count]) => sum + count, 0)
    expect(led).toBe(production.range.lastSlot - production.range.firstSlot + 1)
    expect(made).toBeLessThanOrEqual(led)
  })

  it('shows the same blocks at every node, each up to its own heads', async () => {
    const commitment = { commitment: 'confirmed' }
    const slotOf = (port: number) => call(port, 'getSlot', commitment)
    await until(async () => (await slotOf(ports[0]!)) > 30, 'some blocks')
    const heads = await Promise.all(ports.slice(1).map(slotOf))
    const first = await slotOf(ports[0]!)
    for (const head of heads) expect(head).toBeLessThanOrEqual(first)
    const common = Math.min(...heads)
    const config = { ...commitment, maxSupportedTransactionVersion: 0 }
    const blocksOf = async (port: number) => {
      const slots = (await call(port, 'getBlocks', 1, common, commitment)) as number[]
      const blocks = await Promise.all(
        slots.slice(-8).map((slot) => call(port, 'getBlock', slot, config)),
      )
      return { slots, blocks }
    }
    const expected = await blocksOf(ports[0]!)
    // Some slots were skipped.
    expect(expected.slots.length).toBeLessThan(common)
    for (const port of ports.slice(1)) expect(await blocksOf(port)).toEqual(expected)
  })

  it('answers a transaction and its accounts only once its node has seen them', async () => {
    const key = 'So11111111111111111111111111111111111111112'
    const signature = await call(ports[3]!, 'requestAirdrop', key, 1_000_000)
    for (const port of ports)
      await until(async () => {
        const { value } = await call(port, 'getSignatureStatuses', [signature])
        return value[0]?.confirmationStatus === 'confirmed'
      }, 'the airdrop at every node')
    const balances = await Promise.all(
      ports.map((port) => call(port, 'getBalance', key, { commitment: 'confirmed' })),
    )
    for (const { value } of balances) expect(value).toBe(balances[0].value)
  })

  it('goes on without a node that stops, which comes back on its ports', async () => {
    await expect(call(ports[0]!, 'surfnet_stopNode', 1)).rejects.toThrow('1 to 4')
    await call(ports[0]!, 'surfnet_stopNode', 3)
    await expect(call(ports[2]!, 'getSlot')).rejects.toThrow()
    const slot = await call(ports[1]!, 'getSlot')
    await until(async () => (await call(ports[1]!, 'getSlot')) > slot, 'the others go on')
    const listed = await call(ports[0]!, 'getClusterNodes')
    expect(listed[2].rpc).toBeNull()
    await call(ports[0]!, 'surfnet_startNode', 3)
    expect(await call(ports[2]!, 'getSlot')).toBeGreaterThanOrEqual(slot)
  })
})

describe('a cluster under Alpenglow', () => {
  afterEach(stopAll)

  it('confirms and finalizes a block together, without votes, and has a certificate', async () => {
    const node = await start({ nodes: 2, isAlpenglow: true })
    const [port, other] = portsOf(node) as [number, number]
    const slotOf = (commitment: string) => call(port, 'getSlot', { commitment })
    await until(async () => (await slotOf('finalized')) > 8, 'finalized blocks')
    // In this order, so that slots that pass in between change nothing.
    const processed = await slotOf('processed')
    const confirmed = await slotOf('confirmed')
    const finalized = await slotOf('finalized')
    expect(finalized).toBeGreaterThanOrEqual(confirmed)
    expect(processed - finalized).toBeLessThanOrEqual(4)
    const certificate = await call(other, 'getAgGenesisCert')
    expect(certificate).toEqual(await call(port, 'getAgGenesisCert'))
    expect(certificate.block.slot).toBe(0)
    expect(certificate.block.blockId).toHaveLength(32)
    expect(certificate.signature.signature).toHaveLength(192)
    expect(await call(port, 'getBlockCommitment', finalized)).toEqual({
      commitment: null,
      totalStake: 0,
    })
    const key = 'So11111111111111111111111111111111111111112'
    const signature = await call(port, 'requestAirdrop', key, 1_000_000)
    const seen = new Set<number | null>()
    await until(async () => {
      const { value } = await call(port, 'getSignatureStatuses', [signature])
      if (value[0] !== null) seen.add(value[0].confirmations)
      return value[0]?.confirmationStatus === 'finalized'
    }, 'a finalized airdrop')
    for (const confirmations of seen) expect([0, null]).toContain(confirmations)
  })

  it('migrates: stalls at processed, goes back to the genesis block, uses the slots again', async () => {
    const node = await start({ nodes: 2, faults: ['migration'], slotMs: 60 })
    const [port] = portsOf(node) as [number]
    const socket = new WebSocket(`ws://127.0.0.1:${node.addresses.ws.port}`)
    const opened: number[] = []
    socket.on('message', (data) => {
      const { method, params } = JSON.parse(String(data))
      if (method === 'slotNotification') opened.push(params.result.slot)
    })
    await once(socket, 'open')
    socket.send('{"jsonrpc":"2.0","id":1,"method":"slotSubscribe"}')
    const slotOf = (commitment: string) => call(port, 'getSlot', { commitment })
    const before = await call(port, 'getAgGenesisCert')
    if ((await slotOf('finalized')) < 96) expect(before).toBeNull()
    await until(async () => (await slotOf('confirmed')) > 104, 'the slots are used again')
    socket.terminate()
    expect((await call(port, 'getAgGenesisCert')).block.slot).toBe(95)
    const phase = Array.from({ length: 8 }, (_, index) => 96 + index)
    // Twice: the vote-only blocks, and those that stay.
    const at = opened.indexOf(96)
    expect(opened.slice(at, at + 16)).toEqual([...phase, ...phase])
    const slots = await call(port, 'getBlocks', 90, 104, { commitment: 'confirmed' })
    expect(slots).toEqual(Array.from({ length: 15 }, (_, index) => 90 + index))
  })
})

describe('a node that lies', () => {
  afterEach(stopAll)

  it('is the last one, and says so with its slots, its genesis and its blockhashes', async () => {
    const faults = ['lie-slot', 'lie-genesis', 'lie-blockhash'] as const
    const node = await start({ nodes: 2, faults })
    const [honest, liar] = portsOf(node) as [number, number]
    await until(async () => (await call(honest, 'getSlot')) > 0, 'a finalized block')
    expect((await call(liar, 'getSlot')) - (await call(honest, 'getSlot'))).toBeGreaterThan(900_000)
    expect(await call(liar, 'getGenesisHash')).not.toBe(await call(honest, 'getGenesisHash'))
    const { value } = await call(liar, 'getLatestBlockhash')
    const valid = await call(honest, 'isBlockhashValid', value.blockhash)
    expect(valid.value).toBe(false)
  })
})
