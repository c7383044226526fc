// Latencies of what gateways share in PostgreSQL: changes, settlements, appends, a lease after a
// kill, a revoked token. Thread: main of the bench process; PostgreSQL and gateways are processes.
import { postgresMissing } from '../../test/cluster/postgres.ts'
import type { Bench, Contender, Measurement } from '../lib/bench.ts'
import { ClusterSteps } from '../lib/cluster-steps.ts'
import { Shared, seedDatabase, startSeeded } from '../lib/gateway-servers.ts'
import { leaseCount, takeOver } from '../lib/lease-takeover.ts'
import { Revocations } from '../lib/revocations.ts'

const takeover = 'lease held again after kill -9'
const revocation = 'revoked token dead at 3 gateways'

const server = new Shared(async () => {
  const postgres = await startSeeded()
  // Single steps have a database of their own: running gateways hold the lease of the event log.
  const stepsUrl = await postgres.database()
  await seedDatabase(stepsUrl)
  return { url: postgres.url, stepsUrl, stop: async () => postgres.dispose() }
})
const steps = new Shared(async () => ClusterSteps.start((await server.get()).stepsUrl))
const revocations = new Shared(async () => Revocations.start((await server.get()).url))

function contender(
  name: string,
  run: (seconds: number) => Promise<Measurement>,
  prepare: () => Promise<unknown> = () => steps.get(),
): Contender {
  return {
    name,
    missing: postgresMissing,
    prepare: async () => {
      await prepare()
    },
    run: ({ seconds }) => run(seconds),
    async close() {
      await Promise.all([steps.stop(), revocations.stop()])
      await server.stop()
    },
  }
}

export const bench: Bench = {
  name: 'cluster-latency',
  question: 'How long do changes, settlements, appends, takeovers and revocations take?',
  cores: 3,
  baseline: contender('registry change', async (seconds) => (await steps.get()).change(seconds)),
  candidates: [
    contender('registry change stored at a follower', async (seconds) =>
      (await steps.get()).follow(seconds),
    ),
    ...[1, 100].map((rows) =>
      contender(`settle ${rows} row${rows === 1 ? '' : 's'}`, async (seconds) =>
        (await steps.get()).settle(seconds, rows),
      ),
    ),
    contender('append 20 kB', async (seconds) => (await steps.get()).append(seconds, false)),
    contender('append 20 kB, read by a follower', async (seconds) =>
      (await steps.get()).append(seconds, true),
    ),
    contender(takeover, async () => takeOver((await server.get()).stepsUrl)),
    contender(
      revocation,
      async (seconds) => (await revocations.get()).run(seconds),
      () => revocations.get(),
    ),
  ],
  goals: [
    { contender: takeover, figure: 'p99', atMost: 2_500_000 },
    { contender: revocation, figure: 'p99', atMost: 1_000_000 },
  ],
  verify({ evidence }, name) {
    const { steps = 0, early = 0 } = evidence as { steps?: number; early?: number }
    if (early > 0) return `${early} leases were taken while their holder lived`
    if (name === takeover && steps !== leaseCount) return `${steps} of ${leaseCount} leases`
    return steps > 0 ? undefined : 'nothing was measured'
  },
}
