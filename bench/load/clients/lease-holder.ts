// Holds leases until it is killed. Thread: a process of its own.
import { serveBench } from '../../../test/testkit/process.ts'
import { until } from '../../../test/testkit/until.ts'
import { readyMs } from '../../lib/cluster-steps.ts'
import { keepLeases, leaseCount } from '../../lib/lease-takeover.ts'

serveBench({
  hold: async ({ url, session }: { url: string; session: string }) => {
    const kept = await keepLeases(url, session)
    await until(() => kept.held() === leaseCount, 'all leases', readyMs)
  },
})
