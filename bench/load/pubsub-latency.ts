// From sendTransaction to the processed notification of its logs, beside asking for the
// signature's status until it is there.
// Thread: main of the bench process; the server is a process of its own.
import { Latencies } from '../../src/loadtest/latencies.ts'
import { type Bench, type Contender, latencyUsOf } from '../lib/bench.ts'
import { Shared } from '../lib/shared.ts'
import { SolanaClient } from './clients/solana-client.ts'

const noticeMsMax = 10_000
const unused = ['grpc', 'tpu', 'shredstream', 'metrics', 'indexer'].map(
  (name) => `--${name}.enabled=false`,
)

export const bench: Bench = {
  name: 'pubsub-latency',
  question: 'How long from sendTransaction to the processed notification?',
  cores: 2,
  baseline: contender('asking for the status', async (client) => {
    return async (transaction) => {
      const signature = await client.send(transaction)
      while (!(await client.isProcessed(signature)));
    }
  }),
  candidates: [
    contender('logsSubscribe', async (client) => {
      let heard = () => {}
      await client.subscribeTo(() => heard())
      return async (transaction) => {
        const notice = new Promise<void>((resolve, reject) => {
          heard = resolve
          setTimeout(reject, noticeMsMax, new Error('no notification came')).unref()
        })
        await Promise.all([notice, client.send(transaction)])
      }
    }),
  ],
  goals: [
    { contender: 'logsSubscribe', figure: 'p50', atMost: 1500 },
    { contender: 'logsSubscribe', figure: 'p99', atMost: 8000 },
  ],
  verify: ({ evidence }) =>
    Number(evidence?.landed) > 0 ? undefined : 'no transaction was heard of',
}

/** One server for both: an open subscription costs it next to nothing. */
const shared = new Shared(async ({ smoke }) => {
  const client = await SolanaClient.start(smoke === true ? unused : [])
  return { client, stop: () => client.close() }
})

/** `prepare` returns what lands one transaction and waits for its notification. */
function contender(
  name: string,
  prepare: (client: SolanaClient) => Promise<(transaction: string) => Promise<void>>,
): Contender {
  let client: SolanaClient
  let land: (transaction: string) => Promise<void>
  return {
    name,
    missing: ({ target }) => (target === undefined ? undefined : 'measures a server of its own'),
    async prepare(context) {
      client = (await shared.get(context)).client
      land = await prepare(client)
    },
    async run({ seconds }) {
      const times = new Latencies()
      const endMs = performance.now() + seconds * 1000
      while (performance.now() < endMs) {
        const transaction = await client.transfer()
        const startMs = performance.now()
        await land(transaction)
        times.record(performance.now() - startMs)
      }
      return {
        opsPerSecond: times.count / seconds,
        latencyUs: latencyUsOf(times),
        evidence: { landed: times.count },
      }
    },
    close: () => shared.stop(),
  }
}
