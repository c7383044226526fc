// Declares the meters of ShredStream, read from the shared stats at scrape time.
// A source's label is its index in the configuration; destinations have no label.
import type { Meters } from '../../base/telemetry/meters.ts'
import type { Destinations } from './destinations.ts'
import {
  dropReasons,
  ioNames,
  pauseBoundsMs,
  pauseCauses,
  pausesOf,
  type SharedStats,
} from './shared-stats.ts'

export interface MeterDeps {
  readonly stats: SharedStats
  readonly sources: number
  readonly destinations: Pick<Destinations, 'counts'>
  kernelDrops(): number
}

export function declareShredstreamMeters(meters: Meters, deps: MeterDeps) {
  const { stats, destinations } = deps
  const total = (name: Parameters<typeof stats.totals.get>[1]) => stats.totals.get(0, name)
  const plain = (name: string, help: string, read: () => number) =>
    meters.totalRead(name, help, read)
  plain('sluice_shreds_in_total', 'Packets received, valid or not', () => total('received'))
  plain('sluice_shreds_accepted_total', 'First copies of valid shreds', () => total('accepted'))
  plain('sluice_shreds_out_total', 'Shreds sent, to all destinations together', () => total('sent'))
  plain('sluice_shreds_out_bytes_total', 'Bytes of shreds sent', () => total('sentBytes'))
  plain('sluice_shreds_rebuilt_total', 'Lost shreds rebuilt and sent', () => total('rebuilt'))
  plain(
    'sluice_shreds_window_moves_total',
    'Times that the slot window moved to another slot range',
    () => total('windowMoves'),
  )
  plain(
    'sluice_shreds_kernel_dropped_total',
    'Packets dropped by the kernel: receive buffer full',
    () => deps.kernelDrops(),
  )
  meters.counterRead(
    'sluice_shreds_dropped_total',
    'Packets dropped by reason; cap and error count once for each destination',
    { reason: dropReasons },
    () => dropReasons.map((reason) => [{ reason }, total(reason)] as const),
  )
  declareSources(meters, deps)
  meters.histogramsRead(
    'sluice_shreds_pause_seconds',
    'Time from a receive of the shred worker to its next, by cause; not measured by io: dgram',
    pauseBoundsMs.map((ms) => ms / 1000),
    { cause: pauseCauses },
    () => pauseCauses.map((cause, row) => [{ cause }, pausesOf(stats, row)] as const),
  )
  for (const state of ['active', 'pending', 'unreachable'] as const)
    meters.gaugeRead(
      `sluice_shreds_destinations_${state}`,
      `Destinations that are ${state}`,
      () => destinations.counts()[state],
    )
  for (const io of ioNames.slice(1))
    meters.gaugeRead(
      `sluice_shreds_io_${io.replace('-', '_')}`,
      `1 while shreds are sent by ${io}`,
      () => (ioNames[stats.sockets.get(0, 'io')] === io ? 1 : 0),
    )
  meters.gaugeRead(
    'sluice_shreds_receive_buffer_bytes',
    'Receive buffer granted by the kernel',
    () => stats.sockets.get(0, 'bufferBytes'),
  )
  return {
    restarts: meters.counter('sluice_shreds_worker_restarts_total', 'Restarts of the shred worker'),
    up: meters.gauge('sluice_shreds_worker_up', '1 while the shred worker runs'),
  }
}

function declareSources(meters: Meters, { stats, sources }: MeterDeps): void {
  const labels = { source: Array.from({ length: sources }, (_, index) => String(index)) }
  const read = (name: string, help: string, of: (index: number) => number) =>
    meters.counterRead(name, help, labels, () =>
      labels.source.map((source, index) => [{ source }, of(index)] as const),
    )
  const get = (name: Parameters<typeof stats.sources.get>[1]) => (index: number) =>
    stats.sources.get(index, name)
  read('sluice_shreds_source_in_total', 'Packets by source', get('packets'))
  read(
    'sluice_shreds_source_first_total',
    'Shreds whose first copy came from this source',
    get('first'),
  )
  read(
    'sluice_shreds_source_late_total',
    'Duplicates that another source had sent first',
    get('duplicates'),
  )
  read(
    'sluice_shreds_source_lag_samples_total',
    'Duplicates whose lag was measured',
    get('lagSamples'),
  )
  read(
    'sluice_shreds_source_lag_seconds_total',
    'Sum of measured lags behind the first copy',
    (index) => stats.sources.get(index, 'lagMs') / 1000,
  )
}
