// Declares the meters of the rpc endpoint. Plain numbers, read at scrape: the path is
// hot.
import { type CallOutcome, callOutcomes } from '../../base/jsonrpc/serve.ts'
import type { Meters } from '../../base/telemetry/meters.ts'
import { LatencyTally, PairTally } from '../../base/telemetry/tally.ts'
import { methodLabels } from './method-names.ts'

export interface RpcMeters {
  readonly calls: PairTally<string, CallOutcome>
  readonly latency: LatencyTally
}

export function declareRpcMeters(meters: Meters): RpcMeters {
  const calls = new PairTally(methodLabels, callOutcomes)
  const latency = new LatencyTally()
  meters.counterRead(
    'sluice_rpc_requests_total',
    'JSON-RPC calls over HTTP by method and outcome, batch items one by one',
    { method: methodLabels, outcome: callOutcomes },
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
