// Updates from a node's geyser stream to customers: our pipeline beside a plain relay. Thread:
// main of the bench process; node and relays are processes of their own, the customers one C
// program. The node sends at a steady rate, as a chain does; what counts is how much of a core the
// relay needs for it, so ops/s are updates delivered per second of the relay's CPU time.

import { type BenchProcess, startProcess } from '../../test/testkit/process.ts'
import type { Bench, Contender } from '../lib/bench.ts'
import { buildNative, compilerMissing, runNative } from '../lib/native.ts'
import type { OpenedRelay } from './clients/geyser-relays.ts'

type Kind = 'ours' | 'plain'

interface Shape {
  readonly length: number
  readonly streams: number
  /** Updates per second that the node offers: less than what keeps our relay busy. */
  readonly rate: number
  /** How many times less CPU than the plain relay: the more customers, the more is shared. */
  readonly goal: number
}

const shapes: readonly Shape[] = [
  { length: 400, streams: 1, rate: 40_000, goal: 2 },
  { length: 400, streams: 10, rate: 10_000, goal: 10 },
  { length: 400, streams: 50, rate: 2_000, goal: 15 },
  { length: 2000, streams: 1, rate: 10_000, goal: 1.5 },
  { length: 2000, streams: 10, rate: 2_000, goal: 4 },
  { length: 2000, streams: 50, rate: 500, goal: 6 },
]
const names: Readonly<Record<Kind, string>> = {
  ours: 'node to hub to endpoint',
  plain: 'grpc-js, protobufjs',
}
/** accounts { "a": {} }: everything. */
const request = '0a050a01611200'

export const bench: Bench = {
  name: 'geyser-relay',
  question: 'How many updates of a node reach customers per second of CPU time?',
  cores: 3,
  baseline: contender('plain', shapes[0]!),
  candidates: shapes
    .flatMap((shape) => (['plain', 'ours'] as const).map((kind) => contender(kind, shape)))
    .slice(1),
  goals: shapes.map((shape) => ({
    contender: nameOf('ours', shape),
    to: nameOf('plain', shape),
    figure: 'opsPerSecond' as const,
    atLeast: shape.goal,
  })),
  smoke: [nameOf('plain', shapes[3]!), nameOf('ours', shapes[3]!)],
  verify({ evidence }) {
    const { messages = 0, wrong } = evidence ?? {}
    if (messages === 0) return 'no messages came'
    return wrong === 0 ? undefined : `${wrong} messages had the wrong length`
  },
}

function nameOf(kind: Kind, { length, streams }: Shape): string {
  return `${names[kind]}, ${length} B to ${streams}`
}

function contender(kind: Kind, shape: Shape): Contender {
  const { length, streams, rate } = shape
  return {
    name: nameOf(kind, shape),
    missing: async ({ target }) =>
      target === undefined ? compilerMissing() : 'a deployment is measured',
    async prepare() {
      await pairOf(kind, length)
      await buildNative('grpc-client')
    },
    async run({ seconds }) {
      const { node, relay, opened } = await pairOf(kind, length)
      const client = await buildNative('grpc-client')
      const words = [opened.port, streams, seconds, length, request, opened.token]
      await node.call('pace', rate)
      const startMs = performance.now()
      const before = await relay.call<number>('cpu')
      const { ops = 0, ...evidence } = await runNative(client, words)
      const used = (await relay.call<number>('cpu')) - before
      const share = used / 1e3 / (performance.now() - startMs)
      await node.call('pace', 0)
      return { opsPerSecond: ops / share, evidence: { ...evidence, ops, share } }
    },
    close: stopAll,
  }
}

interface Pair {
  readonly node: BenchProcess
  readonly relay: BenchProcess
  readonly opened: OpenedRelay
}

// One pair for each kind and size; a node that is not asked to send is silent.
const pairs = new Map<string, Promise<Pair>>()

function pairOf(kind: Kind, length: number): Promise<Pair> {
  const key = `${kind} ${length}`
  const known = pairs.get(key) ?? start(kind, length)
  pairs.set(key, known)
  return known
}

async function start(kind: Kind, length: number): Promise<Pair> {
  const node = startProcess(new URL('./clients/geyser-node.js', import.meta.url))
  const relay = startProcess(new URL('./clients/geyser-relays.js', import.meta.url))
  const port = await node.call<number>('open', {
    length,
    perSlot: 100,
    transactions: 0,
    perFrame: 8,
  })
  const opened = await relay.call<OpenedRelay>(kind, port)
  return { node, relay, opened }
}

async function stopAll(): Promise<void> {
  const started = await Promise.all(pairs.values())
  pairs.clear()
  await Promise.all(started.flatMap(({ node, relay }) => [relay.stop(), node.stop()]))
}
