// The meters of the gRPC endpoint.
import type { Meters } from '../../base/telemetry/meters.ts'

export const grpcMethods = [
  'Subscribe',
  'SubscribeDeshred',
  'SubscribeReplayInfo',
  'Ping',
  'GetLatestBlockhash',
  'GetBlockHeight',
  'GetSlot',
  'IsBlockhashValid',
  'GetVersion',
  'other',
] as const
export type GrpcMethodName = (typeof grpcMethods)[number]

export const updateKinds = [
  'account',
  'transaction',
  'slot',
  'entry',
  'block',
  'blockMeta',
  'retraction',
] as const
export type UpdateKind = (typeof updateKinds)[number]

/** Why a stream ended. */
export const endReasons = [
  'client',
  'token',
  'lagged',
  'invalid',
  'out-of-range',
  'replaced',
  'quota',
  'unavailable',
  'shutdown',
] as const
export type EndReason = (typeof endReasons)[number]

export type GrpcMeters = ReturnType<typeof declareGrpcMeters>

export function declareGrpcMeters(meters: Meters) {
  // Read at scrape; set by the service.
  const groups = { count: () => 0 }
  meters.gaugeRead('sluice_grpc_groups', 'Distinct sets of filters among the open streams', () =>
    groups.count(),
  )
  const backlog = { bytes: () => 0 }
  meters.gaugeRead('sluice_grpc_backlog_bytes', 'Unsent bytes of all Subscribe streams', () =>
    backlog.bytes(),
  )
  return {
    requests: meters.pairs(
      'sluice_grpc_requests_total',
      'Calls by method, and whether token and quota let them in',
      ['method', grpcMethods],
      ['outcome', ['admitted', 'refused']],
    ),
    updates: meters.counters(
      'sluice_grpc_updates_total',
      'Updates handed to streams, by kind; one for each stream that gets it',
      'kind',
      updateKinds,
    ),
    sentBytes: meters.counter('sluice_grpc_sent_bytes_total', 'Bytes of frames handed to streams'),
    ended: meters.counters(
      'sluice_grpc_streams_ended_total',
      'Streams ended, by reason',
      'reason',
      endReasons,
    ),
    streams: meters.gauge('sluice_grpc_streams', 'Subscribe streams open now'),
    groups,
    backlog,
  }
}
