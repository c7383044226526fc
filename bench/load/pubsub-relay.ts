// 1,000 customers on one account of an upstream node: through the relay, which has one subscription
// there for all of them, through a naive one with a subscription for each, and without any.
// Thread: main of the bench process; node, relay and customers are processes of their own.
import type { Bench, Contender } from '../lib/bench.ts'
import { type BenchProcess, startProcess } from '../lib/process.ts'
import type { Received } from './clients/pubsub-client.ts'
import type { RelayKind } from './clients/relay-servers.ts'

const customers = 1000
/** Told at once, then waited for: what is on its way fits into the buffers between. */
const updatesPerTurn = 64

const names = {
  naive: 'naive relay, a subscription each',
  shared: 'relay, one subscription for all',
  none: 'no relay, all at the node',
} as const

/** Subscriptions at the node; where they are not what they must be, the round fails. */
const dueAtNode = { naive: customers, shared: 1, none: customers } as const

const contenders = (['naive', 'shared', 'none'] as const).map(contender)

export const bench: Bench = {
  name: 'pubsub-relay',
  question: 'How many notifications of one upstream account reach 1,000 customers per second?',
  cores: 3,
  baseline: contenders[0]!,
  candidates: contenders.slice(1),
  goals: [{ contender: names.shared, to: names.naive, figure: 'opsPerSecond', atLeast: 3 }],
  verify: ({ evidence }) =>
    evidence?.frames === evidence?.due &&
    evidence?.unordered === 0 &&
    evidence?.atNode === evidence?.dueAtNode &&
    Number(evidence?.due) > 0
      ? undefined
      : `notifications or subscriptions are not right: ${JSON.stringify(evidence)}`,
}

function contender(kind: RelayKind | 'none'): Contender {
  const processes: BenchProcess[] = []
  let [node, client] = [] as unknown as [BenchProcess, BenchProcess]
  let received = 0
  const start = (entry: string) => {
    const child = startProcess(new URL(entry, import.meta.url))
    processes.push(child)
    return child
  }
  return {
    name: names[kind],
    missing: ({ target }) => (target === undefined ? undefined : 'measures a server of its own'),
    async prepare() {
      node = start('./clients/relay-servers.js')
      client = start('./clients/pubsub-client.js')
      let port = await node.call<number>('openNode', { isOpen: kind === 'none' })
      let relay: BenchProcess | null = null
      if (kind !== 'none') {
        relay = start('./clients/relay-servers.js')
        port = await relay.call<number>('openRelay', { kind, port })
      }
      await client.call('open', { port, count: customers })
      while (relay !== null && (await relay.call<number>('ready')) < customers) await pause()
    },
    async run({ seconds }) {
      const startMs = performance.now()
      const before = received
      let [due, unordered] = [0, 0]
      while (performance.now() - startMs < seconds * 1000) {
        await node.call('tell', { count: updatesPerTurn })
        due += updatesPerTurn * customers
        const read = await client.call<Received>('read', { due: before + due })
        received = read.frames
        unordered = read.unordered
        if (received - before < due) break
      }
      const took = (performance.now() - startMs) / 1000
      const frames = received - before
      const atNode = await node.call<number>('subscriptions')
      const evidence = { frames, due, unordered, atNode, dueAtNode: dueAtNode[kind] }
      return { opsPerSecond: frames / took, evidence }
    },
    async close() {
      for (const child of processes.splice(0)) await child.stop()
    },
  }
}

function pause(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 20))
}
