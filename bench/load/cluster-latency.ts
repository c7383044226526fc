// Latencies of what gateways share in PostgreSQL: changes, settlements, appends, a lease after a
// kill, a revoked token. Thread: main of the bench process; PostgreSQL and gateways are processes.
import { postgresMissing } from '../../test/cluster/postgres.ts'
import type { Bench, Contender, Measurement, RoundContext } from '../lib/bench.ts'
import { ClusterSteps } from '../lib/cluster-steps.ts'
import { seedDatabase, startSeeded } from '../lib/gateway-servers.ts'
import { leaseCount, takeOver } from '../lib/lease-takeover.ts'
import { Revocations } from '../lib/revocations.ts'
import { Shared } from '../lib/shared.ts'

const takeover = 'lease held again after kill -9'
const revocation = 'revoked token dead at 3 gateways'

const server = new Shared(async () => {
  const postgres = await startSeeded()
  // Single steps have a database of their own: running gateways hold the lease of the event log.
  const stepsUrl = await postgres.database()
  await seedDatabase(stepsUrl)
  return { url: postgres.url, stepsUrl, stop: async () => postgres.dispose() }
})
const steps = new Shared(async (context) =>
  ClusterSteps.start((await server.get(context)).stepsUrl),
)
const revocations = new Shared(async (context) =>
  Revocations.start((await server.get(context)).url, context),
)

function contender(
  name: string,
  run: (context: RoundContext) => Promise<Measurement>,
  prepare: (context: RoundContext) => Promise<unknown> = (context) => steps.get(context),
): Contender {
  return {
    name,
    missing: postgresMissing,
    prepare: async (context) => {
      await prepare(context)
    },
    run,
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
  baseline: contender('registry change', async (context) =>
    (await steps.get(context)).change(context.seconds),
  ),
  candidates: [
    contender('registry change stored at a follower', async (context) =>
      (await steps.get(context)).follow(context.seconds),
    ),
    ...[1, 100].map((rows) =>
      contender(`settle ${rows} row${rows === 1 ? '' : 's'}`, async (context) =>
        (await steps.get(context)).settle(context.seconds, rows),
      ),
    ),
    contender('append 20 kB', async (context) =>
      (await steps.get(context)).append(context.seconds, false),
    ),
    contender('append 20 kB, read by a follower', async (context) =>
      (await steps.get(context)).append(context.seconds, true),
    ),
    contender(takeover, async (context) => takeOver((await server.get(context)).stepsUrl)),
    contender(
      revocation,
      async (context) => (await revocations.get(context)).run(context),
      (context) => revocations.get(context),
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
