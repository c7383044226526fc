// Notifications per second of account subscriptions: 1, 100 and 1,000 subscribers of one account,
// and 1,000 of different ones, beside a plain loop over all subscriptions.
// Thread: main of the bench process; senders and receivers are processes of their own.

import { type BenchProcess, startProcess } from '../../test/testkit/process.ts'
import type { Bench, Contender } from '../lib/bench.ts'
import type { Received } from './clients/pubsub-client.ts'
import type { Opening, PubsubKind } from './clients/pubsub-servers.ts'

const loads = [
  { sockets: 1, accounts: 1 },
  { sockets: 100, accounts: 1 },
  { sockets: 1000, accounts: 1 },
  { sockets: 1000, accounts: 1000 },
] as const
type Load = (typeof loads)[number]

const nameOf = (kind: PubsubKind, { sockets, accounts }: Load) => {
  const what = accounts === 1 ? 'one account' : `${accounts.toLocaleString('en')} accounts`
  const how = kind === 'index' ? 'shared feeds' : 'loop over all'
  return `${how}, ${sockets.toLocaleString('en')} on ${what}`
}

const contenders = loads.flatMap((load) => [contender('loop', load), contender('index', load)])

export const bench: Bench = {
  name: 'pubsub',
  question: 'How many account notifications per second reach 1, 100 and 1,000 subscribers?',
  cores: 2,
  baseline: contenders[0]!,
  candidates: contenders.slice(1),
  goals: loads.map((load) => ({
    contender: nameOf('index', load),
    to: nameOf('loop', load),
    figure: 'opsPerSecond',
    atLeast: 1,
  })),
  smoke: (['loop', 'index'] as const).map((kind) => nameOf(kind, loads[1])),
  verify: ({ evidence }) =>
    evidence?.frames === evidence?.due && evidence?.unordered === 0 && Number(evidence?.due) > 0
      ? undefined
      : `notifications were lost or out of order: ${JSON.stringify(evidence)}`,
}

function contender(kind: PubsubKind, load: Load): Contender {
  let server: BenchProcess
  let client: BenchProcess
  let received = 0
  return {
    name: nameOf(kind, load),
    missing: ({ target }) => (target === undefined ? undefined : 'measures a server of its own'),
    async prepare() {
      server = startProcess(new URL('./clients/pubsub-servers.js', import.meta.url))
      client = startProcess(new URL('./clients/pubsub-client.js', import.meta.url))
      const opening: Opening = { kind, accounts: load.accounts }
      const port = await server.call<number>('open', opening)
      await client.call('open', { port, count: load.sockets })
    },
    async run({ seconds }) {
      const startMs = performance.now()
      const sent = await server.call<number>('send', { seconds })
      const due = sent * (load.accounts === 1 ? load.sockets : 1)
      const { frames, unordered } = await client.call<Received>('read', { due: received + due })
      const took = (performance.now() - startMs) / 1000
      const fresh = frames - received
      received = frames
      return { opsPerSecond: fresh / took, evidence: { frames: fresh, due, unordered } }
    },
    async close() {
      await client?.stop()
      await server?.stop()
    },
  }
}
