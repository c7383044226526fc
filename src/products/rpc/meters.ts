// The meters of the rpc door. Thread: main. Plain numbers, read at scrape: the road is hot.
import type { Meters } from '../../telemetry/meters.ts'
import { LatencyTally, PairTally } from '../../telemetry/tally.ts'
import { methodLabels } from './method-names.ts'

const outcomes = ['ok', 'error', 'refused'] as const
export type RpcOutcome = (typeof outcomes)[number]

export interface RpcMeters {
  readonly calls: PairTally<string, RpcOutcome>
  readonly latency: LatencyTally
}

export function declareRpcMeters(meters: Meters): RpcMeters {
  const calls = new PairTally(methodLabels, outcomes)
  const latency = new LatencyTally()
  meters.counterRead(
    'sluice_rpc_requests_total',
    'JSON-RPC calls over HTTP by method and outcome, batch items one by one',
    { method: methodLabels, outcome: outcomes },
    function* () {
      for (const [method, outcome, count] of calls.read()) yield [{ method, outcome }, count]
    },
  )
  meters.histogramRead(
    'sluice_rpc_seconds',
    'Time from a whole request to its answer',
    latency.buckets,
    () => latency.read(),
  )
  return { calls, latency }
}
