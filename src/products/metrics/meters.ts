// Declares the meters of the metrics product and of its execution source.
// Children are looked up once here; no client is a label.

import type { Meters } from '../../base/telemetry/meters.ts'
import { frameKinds } from '../../streams/log/encoded.ts'
import type { EventLog } from '../../streams/log/log.ts'
import type { ExecutionView } from '../../upstream/ports.ts'

const refusalReasons = ['address-limit', 'bad-request', 'unauthorized'] as const

const routeNames = [
  'tps',
  'contention',
  'status',
  'lifecycles',
  'lifecycle',
  'blocks',
  'top',
  'solana',
  'ticket',
  'document',
  'health',
  'ready',
  'metrics',
  'rpc',
  'page',
] as const
export type RouteName = (typeof routeNames)[number]

export type MetricsMeters = ReturnType<typeof declareMetricsMeters>

export function declareMetricsMeters(meters: Meters) {
  return {
    framesSent: meters.counters(
      'sluice_frames_sent_total',
      'Stream frames sent to clients: frames times receivers',
      'kind',
      frameKinds,
    ),
    framesDropped: meters.counters(
      'sluice_frames_dropped_total',
      'Stream frames not sent to slow clients because a newer one replaced them',
      'kind',
      frameKinds,
    ),
    frameDelivery: meters.latency(
      'sluice_frame_delivery_seconds',
      'Time from reading an event to sending its frame to all live clients',
    ),
    resumes: meters.counters(
      'sluice_ws_connects_total',
      'Stream connections by mode at connect',
      'mode',
      ['resume', 'snapshot'],
    ),
    slowCuts: meters.counter(
      'sluice_ws_slow_cuts_total',
      'Stream clients disconnected for being too slow',
    ),
    refused: meters.counters(
      'sluice_ws_refused_total',
      'Refused stream connections',
      'reason',
      refusalReasons,
    ),
    staleCloses: meters.counter(
      'sluice_metrics_stale_closes_total',
      'How often streams and REST closed because the source was silent for 30 s',
    ),
    requests: meters.counters(
      'sluice_metrics_requests_total',
      'HTTP requests by route',
      'route',
      routeNames,
    ),
  }
}

/** Read at scrape time, so that nothing has to be kept up to date. */
export interface MetricsReads {
  readonly view: Pick<ExecutionView, 'lastEventAgeMs' | 'ringSeqno' | 'latestBlock'>
  readonly events: Pick<EventLog, 'appended' | 'frames' | 'bytes'>
  readonly sockets: { readonly count: number; readonly followers: number }
  isOpen(): boolean
}

export function declareMetricsReads(
  meters: Meters,
  { view, events, sockets, isOpen }: MetricsReads,
): void {
  meters.gaugeRead(
    'sluice_source_event_age_seconds',
    'Time since the last execution event',
    () => view.lastEventAgeMs() / 1000,
  )
  meters.gaugeRead(
    'sluice_source_sequence_number',
    'Last sequence number read from the source',
    () => view.ringSeqno(),
  )
  meters.gaugeRead('sluice_source_block_number', 'Last block that ended', () => view.latestBlock())
  meters.totalRead('sluice_source_gaps_total', 'Gaps in the source, each published as a Gap', () =>
    events.appended('Gap'),
  )
  meters.counterRead(
    'sluice_frames_made_total',
    'Stream frames appended to the log, independent of receivers',
    { kind: frameKinds },
    () => frameKinds.map((kind) => [{ kind }, events.appended(kind)] as const),
  )
  meters.gaugeRead(
    'sluice_ws_clients',
    'Open WebSockets of the metrics service',
    () => sockets.count,
  )
  meters.gaugeRead(
    'sluice_ws_following_clients',
    'Stream clients that catch up from the resume buffer',
    () => sockets.followers,
  )
  meters.gaugeRead(
    'sluice_metrics_open',
    '1 while streams and REST are open, 0 while they are closed',
    () => (isOpen() ? 1 : 0),
  )
  meters.gaugeRead(
    'sluice_resume_buffer_frames',
    'Frames in the resume buffer',
    () => events.frames,
  )
  meters.gaugeRead('sluice_resume_buffer_bytes', 'Bytes of the resume buffer', () => events.bytes)
}
