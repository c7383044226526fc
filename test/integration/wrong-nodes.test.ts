// Nodes that lie beside honest ones: each leaves the rotation and is named, and no customer sees
// what it says.
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { systemClock } from '../../src/base/clock.ts'
import { silentLog } from '../../src/base/telemetry/log.ts'
import { Meters } from '../../src/base/telemetry/meters.ts'
import { startOperatorSocket } from '../../src/base/transport/unix-socket.ts'
import { DrainedNodes, type DrainRequest } from '../../src/operator/topology/upstream.ts'
import { declareUpstreamMeters } from '../../src/upstream/node-pool/upstreams.ts'
import { sampleEvery } from '../../src/upstream/proxy/rpc-proxy.ts'
import { transactionSenders } from '../../src/upstream/transaction-senders.ts'
import { ProxyStage, type SetOptions } from '../testkit/proxy-stage.ts'
import { runHere } from '../testkit/run-here.ts'
import { result, type Script, ScriptedNode } from '../testkit/scripted-node.ts'
import { hangMs, until } from '../testkit/until.ts'

const liar = 3
const reads = 60
let stage: ProxyStage
const folders: string[] = []
afterEach(async () => {
  await stage?.stop()
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true })
})

const context = (slot: number, value: string) =>
  result(`{"context":{"slot":${slot}},"value":${value}}`)

/** Nodes that answer getBalance with 7 at their slot; the last one may be made to lie. */
async function start(count: number, changes: Partial<SetOptions> = {}): Promise<ScriptedNode> {
  stage = await ProxyStage.start({ default: { nodes: count, ...changes } })
  for (const node of stage.nodes.default!) node.scripts.getBalance = context(968, '7')
  return stage.node(count)
}

const states = () => stage.upstreams.set('default')!.nodes.map(({ state }) => state)
const rowOf = (number: number) => stage.upstreams.report()[number - 1]!
/** Where the machine stalls, its probes are late: that is not what it is out for. */
const isIn = (number: number) => ['up', 'probing', 'down'].includes(states()[number - 1]!)
const leaves = (number: number) => until(() => !isIn(number), `node ${number} to leave`)

/** Reads until a node is out; what they saw. */
async function readUntilOut(number: number): Promise<string[]> {
  const seen = new Set<string>()
  // The nodes that answer sooner get most of them.
  const endMs = performance.now() + hangMs
  while (isIn(number) && performance.now() < endMs)
    for (const text of Object.keys(await read(20))) seen.add(text)
  return [...seen]
}

/** Reads one after another; how often each result came. */
async function read(count = reads, method = 'getBalance'): Promise<Record<string, number>> {
  const seen: Record<string, number> = {}
  for (let time = 0; time < count; time++) {
    const { json } = await stage.call(method, `["${time}"]`)
    const text = JSON.stringify(json.result?.value ?? json.result ?? json.error)
    seen[text] = (seen[text] ?? 0) + 1
  }
  return seen
}

async function meter(line: string): Promise<boolean> {
  const meters = new Meters()
  declareUpstreamMeters(meters, stage.upstreams)
  return (await meters.render('text')).body.split('\n').includes(line)
}

const stateLine = (state: string, number = liar) =>
  `sluice_upstream_state{set="default",node="${number}",state="${state}"} 1`
const wrongLine = (reason: string, count: number, number = liar) =>
  `sluice_upstream_wrong_total{set="default",node="${number}",reason="${reason}"} ${count}`

describe('a node 1,000,000 slots ahead of two honest ones', () => {
  it('gives no customer a wrong answer, and none fails', async () => {
    const node = await start(liar)
    node.scripts.getBalance = context(1_000_968, '"wrong"')
    node.scripts.getSlot = result('1000968')
    // Before its first probe with that slot: the answers alone are seen.
    expect(await readUntilOut(liar)).toEqual(['7'])
    expect(rowOf(liar)).toMatchObject({ state: 'distrusted' })
    expect(rowOf(liar).reason).toContain('slots that its set cannot have reached')
    node.slots = { processed: 1_001_000, finalized: 1_000_968 }
    expect(await read()).toEqual({ 7: reads })
    expect(await meter(wrongLine('slot', 3))).toBe(true)
  })

  it('answers none of 1,000 reads, whatever they ask for, and none fails', async () => {
    const node = await start(liar)
    for (const each of stage.nodes.default!) {
      const [slot, value] = each === node ? [1_000_968, '"wrong"'] : [968, '7']
      for (const method of [
        'getBalance',
        'getAccountInfo',
        'getLatestBlockhash',
        'getFeeForMessage',
      ])
        each.scripts[method] = context(slot, value)
      for (const method of ['getSlot', 'getBlockHeight'])
        each.scripts[method] = result(String(slot))
    }
    node.slots = { processed: 1_001_000, finalized: 1_000_968 }
    const methods = Object.keys(node.scripts)
    const seen = new Map<string, number>()
    const readAll = async (reader: number) => {
      for (let time = 0; time < 125; time++) {
        const method = methods[(time + reader) % methods.length]!
        const config = { minContextSlot: 900 + (time % 60) }
        const key = ['getBalance', 'getAccountInfo', 'getFeeForMessage'].includes(method)
        const params = key ? [`${reader} ${time}`, config] : [config]
        const { json } = await stage.call(method, JSON.stringify(params))
        const text = JSON.stringify(json.error ?? json.result?.value ?? json.result)
        seen.set(text, (seen.get(text) ?? 0) + 1)
      }
    }
    await Promise.all(Array.from({ length: 8 }, (_, reader) => readAll(reader)))
    expect([...seen.keys()].toSorted()).toEqual(['7', '968'])
    expect([...seen.values()].reduce((sum, count) => sum + count)).toBe(1_000)
  })

  it('is named by its probes, too', async () => {
    const node = await start(liar)
    node.slots = { processed: 1_001_000, finalized: 1_000_968 }
    node.scripts.getBalance = context(1_000_968, '"wrong"')
    await leaves(liar)
    expect(rowOf(liar)).toMatchObject({ state: 'ahead', lagSlots: -1_000_000 })
    expect(rowOf(liar).reason).toContain('far above')
    expect(stage.upstreams.set('default')!.slot()).toBe(1_000)
    expect(await read()).toEqual({ 7: reads })
    expect(await meter(stateLine('ahead'))).toBe(true)
  })
})

describe('a node of another chain', () => {
  it('is named, and used for neither reads nor sends nor statuses', async () => {
    const node = await start(liar, { broadcast: true })
    const sent: Script = ({ id }, response) =>
      response.end(`{"jsonrpc":"2.0","id":${id},"result":"signature"}`)
    for (const each of stage.nodes.default!) each.scripts.sendTransaction = sent
    node.genesis = 'of another chain'.replaceAll(' ', '')
    node.scripts.getBalance = context(968, '"wrong"')
    // As a process that is replaced: its slots go back.
    node.slots = { processed: 10, finalized: 1 }
    await until(() => states()[liar - 1] === 'foreign', 'it to be foreign')
    const before = node.asked.length
    expect(await read()).toEqual({ 7: reads })
    expect((await stage.call('sendTransaction', '["AA=="]')).json.result).toBe('signature')
    const deps = { clock: systemClock, log: silentLog }
    const [sender] = transactionSenders(['default'], stage.upstreams, deps)
    expect(await sender!.send(Uint8Array.of(1))).toMatchObject({ ok: true })
    await sender!.fates([Uint8Array.of(1)])
    expect(node.asked.length).toBe(before)
    await until(() => stage.node(1).count('sendTransaction') === 2, 'both sends')
    expect(rowOf(liar)).toMatchObject({ state: 'foreign', genesis: 'ofanotherchain' })
    expect(await meter(stateLine('foreign'))).toBe(true)
  })
})

describe('another block at a confirmed slot', () => {
  it('of one node against two takes it out', async () => {
    const node = await start(liar)
    node.scripts.getBalance = context(968, '"wrong"')
    node.blockhash = () => 'another'
    for (const { slots } of stage.nodes.default!) slots.finalized++
    await leaves(liar)
    expect(rowOf(liar)).toMatchObject({ state: 'distrusted' })
    expect(rowOf(liar).reason).toMatch(
      /^at slot 969 it has another block than default\/\d, default/,
    )
    expect(await read()).toEqual({ 7: reads })
    expect(await meter(stateLine('distrusted'))).toBe(true)
    expect(states().slice(0, 2)).toEqual(['up', 'up'])
  })

  it('of two nodes keeps the one that is followed, with an alert', async () => {
    const node = await start(2)
    stage.upstreams.set('default')!.followed = stage.upstreams.node('default/1')
    node.scripts.getBalance = context(968, '"other"')
    node.blockhash = () => 'another'
    for (const { slots } of stage.nodes.default!) slots.finalized++
    await leaves(2)
    expect(states()).toEqual(['up', 'distrusted'])
    expect(rowOf(2).reason).toContain('neither is proven wrong')
    expect(await meter(wrongLine('block', 1, 2))).toBe(true)
    expect(await read()).toEqual({ 7: reads })
  })
})

describe('answers with other ids than the calls', () => {
  const swapped: Script = ({ id }, response) =>
    response.end(
      `{"jsonrpc":"2.0","result":{"context":{"slot":968},"value":"wrong"},"id":${id + 1}}`,
    )

  it('are refused and counted, and their node leaves', async () => {
    const node = await start(liar)
    node.scripts.getBalance = swapped
    expect(await readUntilOut(liar)).toEqual(['7'])
    expect(rowOf(liar)).toMatchObject({
      state: 'distrusted',
      reason: 'its answers have other ids than the calls',
    })
    expect(await meter(wrongLine('id', 3))).toBe(true)
  })

  it('are refused where the service itself calls', async () => {
    const node = await start(2)
    const { nodes } = stage.upstreams.set('default')!
    node.scripts.sendTransaction = swapped
    const { callNode } = await import('../../src/upstream/node-pool/upstream-set.ts')
    const body = '{"jsonrpc":"2.0","id":1,"method":"sendTransaction","params":[]}'
    expect(await callNode(nodes[1]!, body)).toMatchObject({ ok: false })
    expect(nodes[1]!.wrongs.id).toBe(1)
  })
})

describe('answers of another method', () => {
  it.each([
    ['getSlot', '"ok"', '968'],
    ['getLatestBlockhash', '1000', '{"context":{"slot":968},"value":7}'],
    ['getVersion', '[]', '{"solana-core":"4.1.0"}'],
  ])('to %s are refused, and their node leaves', async (method, wrong, right) => {
    const node = await start(liar)
    for (const each of stage.nodes.default!) each.scripts[method] = result(right)
    node.scripts[method] = result(wrong)
    for (let time = 0; time < 1_000 && isIn(liar); time++) {
      const { json } = await stage.call(method, `[{"time":${time}}]`)
      if (method === 'getVersion') expect(json.result).toHaveProperty('solana-core')
      else expect(json.result).toEqual(JSON.parse(right))
      // Its answer is cached for a second.
      if (method === 'getVersion') stage.upstreams.node('default/3')!.distrust('shape')
    }
    expect(rowOf(liar).reason).toBe('its answers are not those of the methods')
  })

  it('to a probe take the node out', async () => {
    const node = await start(liar)
    const { slots } = node
    node.slots = { ...slots, finalized: 'ok' as never }
    await leaves(liar)
    expect(rowOf(liar).reason).toBe('its answers are not those of the methods')
  })
})

describe('a slot that stands still', () => {
  it('takes a node out that says it is healthy', async () => {
    await start(liar)
    const timer = setInterval(() => {
      for (const { slots } of stage.nodes.default!.slice(0, 2)) slots.processed += 2
    }, 400)
    try {
      await leaves(liar)
    } finally {
      clearInterval(timer)
    }
    expect(rowOf(liar)).toMatchObject({ state: 'lagging' })
    expect(rowOf(liar).reason).toContain('stands still')
  })
})

describe('a drained node', () => {
  /** The verb against a server that has these nodes. */
  async function drains() {
    const data = mkdtempSync(join(tmpdir(), 'sluice-drain-'))
    folders.push(data)
    const open = () => new DrainedNodes(data, stage.upstreams, silentLog)
    const drained = open()
    const drain = ({ params }: { params: object }) => drained.change(params as DrainRequest)
    const status = () => ({ upstreams: stage.upstreams.report() })
    const meters = () => ''
    const socket = await startOperatorSocket(data, { drain, status, meters }, silentLog)
    const run = (...words: string[]) => runHere(...words, '--data', data)
    return { data, open, socket, run }
  }

  it('ends its calls in flight, gets no new ones, and nobody sees an error', async () => {
    const node = await start(2)
    const late: (() => void)[] = []
    for (const each of stage.nodes.default!)
      each.scripts.getSupply = (asked, response) =>
        late.push(() => result(`"${each.name}"`)(asked, response))
    const waiting = Array.from({ length: 20 }, (_, time) => stage.call('getSupply', `[${time}]`))
    await until(() => late.length === 20, 'all asked')
    expect(node.count('getSupply')).toBeGreaterThan(0)
    const { run, socket } = await drains()
    const { stdout, code } = await run('node', 'drain', 'default', '2', '--reason', 'upgrade')
    expect([code, stdout]).toEqual([0, expect.stringContaining('default/2 is drained')])
    const before = node.count('getBalance')
    expect(await read()).toEqual({ 7: reads })
    expect(node.count('getBalance')).toBe(before)
    for (const give of late) give()
    const answers = await Promise.all(waiting)
    expect(answers.map(({ json }) => json.error)).toEqual(Array(20).fill(undefined))
    expect(answers.some(({ json }) => json.result === 'default/2')).toBe(true)
    const status = await run('status')
    expect(status.stdout).toMatch(/default\/2 .*drained.*by .*: upgrade/)
    const doctor = await run('doctor')
    expect(doctor.stdout).toContain('sluice node resume default 2')
    const { stdout: resumed } = await run('node', 'resume', 'default', '2')
    expect(resumed).toContain('default/2 is up')
    expect(states()).toEqual(['up', 'up'])
    await socket.stop()
  })

  it('stays out over a restart, and only at its address', async () => {
    await start(2)
    const { run, open, socket, data } = await drains()
    await run('node', 'drain', 'default', '1')
    stage.upstreams.node('default/1')!.setDrained(null)
    open()
    expect(states()).toEqual(['drained', 'up'])
    expect(readFileSync(join(data, 'drained.json'), 'utf8')).not.toContain('127.0.0.1')
    await run('node', 'resume', 'default', '1')
    open()
    expect(states()).toEqual(['up', 'up'])
    await socket.stop()
  })

  it('is that of the file which another process has written, as far as it can be read', async () => {
    await start(2)
    const { run, open, socket, data } = await drains()
    const gateway = open()
    await run('node', 'drain', 'default', '1')
    stage.upstreams.node('default/1')!.setDrained(null)
    gateway.refresh()
    expect(states()).toEqual(['drained', 'up'])
    writeFileSync(join(data, 'drained.json'), '{')
    gateway.refresh()
    expect(states()).toEqual(['drained', 'up'])
    rmSync(join(data, 'drained.json'))
    gateway.refresh()
    expect(states()).toEqual(['up', 'up'])
    await socket.stop()
  })

  it('is that one of two nodes behind one JSON-RPC address', async () => {
    const balanced = await new ScriptedNode('balanced').listen()
    stage = await ProxyStage.start({ default: { nodes: [balanced.url, balanced.url] } })
    balanced.scripts.getBalance = context(968, '7')
    const { run, open, socket } = await drains()
    await run('node', 'drain', 'default', '2')
    open()
    expect(states()).toEqual(['up', 'drained'])
    expect(await read(5)).toEqual({ 7: 5 })
    const last = await run('node', 'drain', 'default', '1')
    expect(last.stderr).toContain('no other node')
    await run('node', 'resume', 'default', '2')
    open()
    expect(states()).toEqual(['up', 'up'])
    await socket.stop()
    await balanced.close()
  })

  it('is not kept when its file could not be written, also not by the next change', async () => {
    await start(3)
    const { data, open, socket } = await drains()
    await socket.stop()
    const drained = open()
    const file = join(data, 'drained.json')
    const change = (node: string) =>
      drained.change({ node, isDrained: true, who: 'me', reason: '' })
    mkdirSync(file)
    expect(() => change('default/1')).toThrow('drained.json')
    rmSync(file, { recursive: true })
    change('default/2')
    open()
    expect(states()).toEqual(['up', 'drained', 'up'])
  })

  it('is refused where no other node can take over, and where there is no such node', async () => {
    await start(2)
    const { run, socket } = await drains()
    await run('node', 'drain', 'default', '1')
    const last = await run('node', 'drain', 'default', '2')
    expect([last.code, last.stderr]).toEqual([1, expect.stringContaining('no other node')])
    expect(states()).toEqual(['drained', 'up'])
    expect((await run('node', 'drain', 'default', '9')).stderr).toContain('no node default/9')
    expect((await run('node', 'drain', 'default', 'x')).code).toBe(2)
    await socket.stop()
    expect((await run('node', 'drain', 'default', '2')).stderr).toContain('no server runs')
  })
})

describe('compare', () => {
  const count = sampleEvery * 2

  it('is off by default', async () => {
    await start(2)
    await read(sampleEvery)
    const asked = stage.nodes.default!.reduce((sum, node) => sum + node.count('getBalance'), 0)
    expect(asked).toBe(sampleEvery)
  })

  it('counts results that differ at one slot, by method, and delays nobody', async () => {
    await start(2, { compare: 2 })
    const [one, other] = stage.nodes.default!
    other!.scripts.getBalance = context(968, '8')
    await read(count)
    await until(() => stage.tally.compared.different === 2, 'the comparisons')
    expect(stage.tally.differences.get('getBalance')).toBe(2)
    expect(stage.tally.compared).toEqual({ equal: 0, different: 2, skipped: 0 })
    // At another slot there is nothing to compare, and the order of members is no difference.
    other!.scripts.getBalance = context(969, '8')
    await read(sampleEvery)
    await until(() => stage.tally.compared.skipped === 1, 'a comparison')
    one!.scripts.getBalance = context(968, '{"a":1,"b":2}')
    other!.scripts.getBalance = result('{"value":{"b":2,"a":1},"context":{"slot":968,"x":1}}')
    await read(sampleEvery)
    await until(() => stage.tally.compared.equal === 1, 'a comparison')
    // The other node never answers the comparison: the customer has its answer all the same.
    const silent: Script = () => {}
    one!.scripts.getTransaction = result('{"slot":5}')
    other!.scripts.getTransaction = silent
    stage.upstreams.node('default/2')!.setDrained('for the test')
    await read(sampleEvery, 'getTransaction')
    expect(stage.tally.compared.different).toBe(2)
  })
})
