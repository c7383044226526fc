// What a modest customer of every endpoint sees of others at the edge of what they may do: ten
// thousand idle and two thousand busy connections on an endpoint, a thousand gRPC streams, two
// thousand new connections a second, eight addresses that spend their budget. Every second busy
// connection and stream is not read. Clients and server share the cores: rows named `own queueing`
// show how long the server's main thread delayed others by its own work in the same time, rows named
// `wait for a core` how long it could not run, both in samples of 5 ms.
// Thread: main of the bench process; the server and the clients are processes of their own.
//
//   probe, 6 endpoints ──► server ◄── crowd (another process): crowds, streams, beyond the limit
//      in JavaScript          ▲
//                             └────── its child in C (native/edge-load.c): new connections, the
//                                     eight addresses; a client in JavaScript takes a third of a core
import { existsSync, readdirSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { ExpositionText } from '../../src/client/exposition-text.ts'
import { MemoryProbe, type MemorySample } from '../../test/testkit/memory-probe.ts'
import { type BenchProcess, startProcess } from '../../test/testkit/process.ts'
import {
  isQueueingCounted,
  type Queueing,
  QueueingProbe,
} from '../../test/testkit/queueing-probe.ts'
import { provision, type Server, startServer } from '../../test/testkit/server.ts'
import { until } from '../../test/testkit/until.ts'
import type { Bench, Contender, Goal, Measurement, RoundContext } from '../lib/bench.ts'
import { type EdgeTarget, edgeEndpoints } from '../lib/edge-line.ts'
import { compilerMissing } from '../lib/native.ts'
import { Shared } from '../lib/shared.ts'
import type { AttackOrder, CrowdCounts, CrowdOrder, Probed } from './clients/edge-crowd.ts'

/** Of a crowd, and of the other loads; a smoke run has a hundredth. */
const sizes = { idle: 10_000, busy: 2_000, streams: 1_000, perSecond: 2_000 }
/** Memory of the server for an idle connection, heap and native. */
const idleBytesMax = 64 * 1024
/** Fewer connections cannot be told from garbage. */
const idleMeasured = 1_000
/** Of the new connections that are due: with fewer the load is another one. */
const renewedMin = 0.9
const busyEveryMs = 5_000
const probeEveryMs = 25
const attackers = 8
const attackPauseMs = 100
/** Little traffic, and budgets that are soon spent. */
const smokeFlags = [
  ...['--chain.traffic=5', '--metrics.generator.tps=50'],
  ...['--addressBudget.bytesBurst=262144', '--addressBudget.bytesPerSecond=65536'],
]
const settleMs = 1_500
const alone = 'others alone'
const patience = 60_000
/** Files and connections of the server's own, which come and go. */
const strayDescriptors = 200

interface Stage {
  readonly server: Server
  readonly targets: readonly EdgeTarget[]
  readonly probe: BenchProcess
  readonly crowd: BenchProcess
  readonly memory: MemoryProbe
  readonly queueing: QueueingProbe
  stop(): Promise<void>
}

/** Starts a load and says how large it is; `end` returns what is wrong with it. */
interface Load {
  readonly name: string
  readonly missing?: typeof compilerMissing
  start(stage: Stage, part: number): Promise<{ readonly idle?: number }>
  problem(counts: CrowdCounts, facts: LoadFacts): string | undefined
}

interface LoadFacts {
  readonly part: number
  /** Requests that the server counted as refused by the budget of their address. */
  readonly budgetRefused: number
}

const crowds: readonly Load[] = edgeEndpoints.map((endpoint) => ({
  name: `beside a crowd on ${endpoint}`,
  async start({ targets, crowd }, part) {
    const idle = Math.ceil(sizes.idle * part)
    const target = targets.find((one) => one.endpoint === endpoint)!
    const busy = Math.ceil(sizes.busy * part)
    await crowd.call('crowd', { target, idle, busy, everyMs: busyEveryMs } satisfies CrowdOrder)
    return { idle: idle + busy }
  },
  problem: ({ open, ended, refused, wrong }, { part }) => {
    const wanted = Math.ceil(sizes.idle * part) + Math.ceil(sizes.busy * part)
    const isWhole = open + ended === wanted && Object.keys(refused).length === 0
    if (!isWhole) return `${open} of ${wanted} connections, refused ${JSON.stringify(refused)}`
    return wrong === 0 ? undefined : `${wrong} wrong answers to the crowd`
  },
}))

const streams: Load = {
  name: 'beside 1,000 gRPC streams',
  async start({ targets, crowd }, part) {
    const target = targets.find(({ endpoint }) => endpoint === 'grpc')!
    const count = Math.ceil(sizes.streams * part)
    await crowd.call('subscribe', { target, count })
    const isSent = async () => (await crowd.call<CrowdCounts>('counts')).asked === count
    await until(isSent, 'the first update of every stream', patience)
    return {}
  },
  problem: ({ wrong }) => (wrong === 0 ? undefined : `${wrong} streams ended`),
}

const renewed: Load = {
  name: 'beside 2,000 new connections a second',
  missing: compilerMissing,
  async start({ targets, crowd }, part) {
    await crowd.call('renew', { targets, perSecond: sizes.perSecond * part })
    const isMade = async () => (await crowd.call<CrowdCounts>('counts')).asked >= targets.length
    await until(isMade, 'a new connection to each endpoint', patience)
    return {}
  },
  problem: ({ refused, wrong, asked, due, late, full }, { part }) => {
    const count = Object.values(refused).reduce((sum, one) => sum + one, 0)
    if (count > 0) return `new connections were refused: ${JSON.stringify(refused)}`
    if (wrong > 0) return `${wrong} new connections got no right answer`
    // A smoke run has few, beside other benches.
    if (part < 1 || asked >= renewedMin * due) return
    const why = `${late} for the client was late, ${full} for too many had no answer`
    return `${asked} of ${due} new connections were made, ${why}`
  },
}

const attacked: Load = {
  name: 'beside eight addresses that spend their budget',
  missing: compilerMissing,
  async start({ targets, crowd }) {
    const { port } = targets.find(({ endpoint }) => endpoint === 'metrics')!
    const order = { port, count: attackers, pauseMs: attackPauseMs }
    await crowd.call('attack', order satisfies AttackOrder)
    const isSpent = async () => ((await crowd.call<CrowdCounts>('counts')).refused[429] ?? 0) > 0
    await until(isSpent, 'a budget to be spent', patience)
    return {}
  },
  problem: ({ refused, wrong }, { budgetRefused }) => {
    const { 429: limited = 0, ...others } = refused
    if (wrong > 0) return `${wrong} answers to attackers were not whole`
    if (Object.keys(others).length > 0) return `attackers got ${JSON.stringify(others)}`
    // One or the other may be under way when they are read.
    const isCounted = Math.abs(limited - budgetRefused) <= 18 * attackers
    return isCounted ? undefined : `${limited} refusals, of which ${budgetRefused} were counted`
  },
}

/** Connections that one address may have by default, and what the rest is told. */
const limits = [
  { endpoint: 'rpc', most: 1_024, told: 'closed' },
  { endpoint: 'websocket', most: 100, told: '429' },
  { endpoint: 'grpc', most: 256, told: 'closed' },
] as const
const beyondLimit = 40

const refusing: Load = {
  name: 'beside connections beyond the limit of an address',
  async start({ targets, crowd }) {
    for (const { endpoint, most, told } of limits) {
      const target = targets.find((one) => one.endpoint === endpoint)!
      const order = { target, count: most + beyondLimit }
      const { open, refused } = await crowd.call<CrowdCounts>('beyond', order)
      const others = Object.keys(refused).filter((status) => status !== told)
      // The native server may refuse earlier: it counts by the kernel's table, some time ago.
      if (open > most || open < most / 2 || others.length > 0)
        throw new Error(`${endpoint}: ${open} of at most ${most}, ${JSON.stringify(refused)}`)
    }
    return {}
  },
  problem: () => undefined,
}

const loads = [...crowds, streams, renewed, attacked, refusing]
const loadNames = [alone, ...loads.map(({ name }) => name)]
const queueings = {
  ownMs: (name: string) => `own queueing, ${name}`,
  waitedMs: (name: string) => `wait for a core, ${name}`,
} as const

export const bench: Bench = {
  name: 'edge',
  question: 'What does a modest customer see of crowds at the edge of what they may do?',
  cores: 4,
  seconds: 6,
  baseline: probing(alone, null),
  candidates: [
    ...loads.map((load) => probing(load.name, load)),
    ...loadNames.map((name) => queueing('ownMs', name)),
    ...loadNames.map((name) => queueing('waitedMs', name)),
  ],
  goals: [(name: string) => name, queueings.ownMs].flatMap((rowOf) =>
    loads.map(
      ({ name }): Goal => ({
        contender: rowOf(name),
        to: rowOf(alone),
        figure: 'p99',
        atMost: 1.2,
      }),
    ),
  ),
  // One crowd of each protocol.
  smoke: [
    ...[alone, queueings.ownMs(alone), queueings.waitedMs(alone)],
    ...[...crowds.slice(0, 3), streams, renewed, attacked, refusing].map(({ name }) => name),
  ],
  verify: ({ evidence }) => evidence?.problem as string | undefined,
}

const shared = new Shared(start)

async function start({ smoke }: RoundContext): Promise<Stage> {
  const [memory, queueing] = [new MemoryProbe(), new QueueingProbe()]
  const flags = smoke === true ? smokeFlags : []
  const nodeFlags = [...memory.options.nodeFlags, ...queueing.options.nodeFlags]
  const env = { ...memory.options.env, ...queueing.options.env }
  const server = await startServer({ isWhole: true, flags, nodeFlags, env })
  const bundle = ['--product=bundle', '--product=indexer', '--plan=unlimited']
  const { token, indexer } = await provision(server.data, 'edge', ...bundle)
  const basic = Buffer.from(`${indexer?.user}:${indexer?.password}`).toString('base64')
  const entry = new URL('./clients/edge-crowd.js', import.meta.url)
  const [probe, crowd] = [startProcess(entry), startProcess(entry)]
  const targets = edgeEndpoints.map((endpoint): EdgeTarget => {
    return { endpoint, port: server.doors[endpoint]!.port, token, basic }
  })
  const stop = async () => {
    await Promise.all([probe.stop(), crowd.stop()])
    await server.dispose()
    memory.dispose()
    queueing.dispose()
  }
  const stage = { server, targets, probe, crowd, memory, queueing, stop }
  // A new subscription is known within a second, and the chain has its first block.
  await until(async () => problemOf(await probed(stage, 0.01)) === undefined, 'every endpoint')
  return stage
}

function probed({ probe, targets }: Stage, seconds: number): Promise<Probed> {
  return probe.call<Probed>('probe', { targets, seconds, everyMs: probeEveryMs })
}

function problemOf(found: Probed): string | undefined {
  const wrong = Object.entries(found).filter(([, times]) => times.some(Number.isNaN))
  if (wrong.length === 0) return
  return `wrong answers to the customer of ${wrong.map(([endpoint]) => endpoint).join(', ')}`
}

/** What the last round of each load found. */
const queued = new Map<string, Queueing>()

function probing(name: string, load: Load | null): Contender {
  return {
    name,
    missing: ({ target }) =>
      target === undefined ? load?.missing?.() : 'measures a server of its own',
    async run(context) {
      const stage = await shared.get(context)
      return measure(stage, { name, load, context })
    },
    close: () => shared.stop(),
  }
}

/** Measured with the probes of the same name. */
function queueing(kind: keyof Queueing, load: string): Contender {
  return {
    name: queueings[kind](load),
    missing: ({ target }) => {
      if (target !== undefined) return 'measures a server of its own'
      if (!isQueueingCounted) return 'this kernel does not count it'
      return loads.find(({ name }) => name === load)?.missing?.()
    },
    run: async ({ seconds }) => {
      const times = queued.get(load)![kind]
      return { opsPerSecond: times.length / seconds, latencyUs: percentilesUs(times) }
    },
  }
}

async function measure(
  stage: Stage,
  { name, load, context }: { name: string; load: Load | null; context: RoundContext },
): Promise<Measurement> {
  const part = context.smoke === true ? 0.01 : 1
  const memory = await memoryOf(stage)
  const [opened, descriptors] = [await metersOf(stage), descriptorsOf(stage)]
  const size = (await load?.start(stage, part)) ?? {}
  const now = await memoryOf(stage)
  // What opening the crowd and collecting its garbage left behind is over.
  await sleep(Math.min(settleMs, context.seconds * 1000))
  // Later crowds reuse what earlier ones left to the allocator: what is retained shows them, too.
  const grown = Math.max(now.resident - memory.resident, now.retained - memory.retained)
  const start = stage.queueing.at
  const found = await probed(stage, context.seconds)
  queued.set(name, stage.queueing.since(start))
  const counts = await stage.crowd.call<CrowdCounts>('leave')
  const budgetRefused = sumOf(await metersOf(stage), opened, 'address_refused_total')
  // What is left of a load would be one beside the next.
  const isOver = async () =>
    descriptorsOf(stage) <= descriptors + strayDescriptors &&
    (await metersOf(stage)).sum('grpc_streams') === 0
  await until(isOver, 'the end of a load')
  await sleep(Math.min(1_000, context.seconds * 1000))
  const { idle = 0 } = size
  const each = idle >= idleMeasured ? grown / idle : undefined
  const problem =
    problemOf(found) ??
    load?.problem(counts, { part, budgetRefused }) ??
    (each !== undefined && each > idleBytesMax ? `${each} bytes for an idle connection` : undefined)
  const times = Object.values(found).flat()
  return {
    opsPerSecond: times.length / context.seconds,
    latencyUs: percentilesUs(times),
    ...(each !== undefined && { bytesPerOp: each }),
    evidence: { problem, counts },
  }
}

/** None where the system does not tell. */
function descriptorsOf({ server }: Stage): number {
  const folder = `/proc/${server.child.pid}/fd`
  return existsSync(folder) ? readdirSync(folder).length : 0
}

function percentilesUs(ms: readonly number[]): { p50: number; p99: number; p999: number } {
  const sorted = ms.toSorted((a, b) => a - b)
  const at = (share: number) => 1000 * (sorted[Math.ceil(share * sorted.length) - 1] ?? 0)
  return { p50: at(0.5), p99: at(0.99), p999: at(0.999) }
}

/** After its garbage was collected. */
function memoryOf({ server, memory }: Stage): Promise<MemorySample> {
  return memory.sample(server.child.pid!)
}

async function metersOf({ server }: Stage): Promise<ExpositionText> {
  return new ExpositionText(await (await fetch(`${server.url('metrics')}/metrics`)).text())
}

function sumOf(after: ExpositionText, before: ExpositionText, name: string): number {
  return after.sum(name) - before.sum(name)
}
