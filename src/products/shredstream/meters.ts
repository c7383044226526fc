// The meters of ShredStream, read from the worker's board when somebody scrapes. Thread: main.
// Sources carry the number of their line in the configuration; destinations have no label at all.
import type { CounterChild, GaugeChild, Meters } from '../../telemetry/meters.ts'
import { type Board, dropReasons, ioNames } from './board.ts'
import type { Destinations } from './destinations.ts'

export interface ShredstreamMeters {
  readonly restarts: CounterChild
  readonly up: GaugeChild
}

export interface MeterParts {
  readonly board: Board
  readonly sources: number
  readonly destinations: Pick<Destinations, 'counts'>
  kernelDrops(): number
}

export function declareShredstreamMeters(meters: Meters, parts: MeterParts): ShredstreamMeters {
  const { board, destinations } = parts
  const total = (name: Parameters<typeof board.totals.get>[1]) => board.totals.get(0, name)
  const plain = (name: string, help: string, read: () => number) =>
    meters.counterRead(name, help, {}, () => [[{}, read()]])
  plain('sluice_shreds_in_total', 'Packets that came in, good or bad', () => total('received'))
  plain('sluice_shreds_accepted_total', 'First copies of good shreds', () => total('accepted'))
  plain('sluice_shreds_out_total', 'Shreds sent, to all destinations together', () => total('sent'))
  plain('sluice_shreds_out_bytes_total', 'Bytes of shreds sent', () => total('sentBytes'))
  plain('sluice_shreds_rebuilt_total', 'Lost shreds rebuilt and sent', () => total('rebuilt'))
  plain('sluice_shreds_window_moves_total', 'Times that the slot window began anew', () =>
    total('windowMoves'),
  )
  plain('sluice_shreds_kernel_dropped_total', 'Packets lost in the receive buffer', () =>
    parts.kernelDrops(),
  )
  meters.counterRead(
    'sluice_shreds_dropped_total',
    'Packets not sent on; cap and error count once for each destination',
    { reason: dropReasons },
    () => dropReasons.map((reason) => [{ reason }, total(reason)] as const),
  )
  declareSources(meters, parts)
  for (const state of ['active', 'pending', 'unreachable'] as const)
    meters.gaugeRead(
      `sluice_shreds_destinations_${state}`,
      `Destinations that are ${state}`,
      () => destinations.counts()[state],
    )
  for (const io of ioNames.slice(1))
    meters.gaugeRead(
      `sluice_shreds_io_${io.replace('-', '_')}`,
      `1 while shreds go by ${io}`,
      () => (ioNames[board.sockets.get(0, 'io')] === io ? 1 : 0),
    )
  meters.gaugeRead(
    'sluice_shreds_receive_buffer_bytes',
    'Receive buffer that the kernel gave',
    () => board.sockets.get(0, 'bufferBytes'),
  )
  return {
    restarts: meters.counter('sluice_shreds_worker_restarts_total', 'Restarts of the shred worker'),
    up: meters.gauge('sluice_shreds_worker_up', '1 while the shred worker runs'),
  }
}

function declareSources(meters: Meters, { board, sources }: MeterParts): void {
  const labels = { source: Array.from({ length: sources }, (_, place) => String(place)) }
  const read = (name: string, help: string, of: (place: number) => number) =>
    meters.counterRead(name, help, labels, () =>
      labels.source.map((source, place) => [{ source }, of(place)] as const),
    )
  const get = (name: Parameters<typeof board.sources.get>[1]) => (place: number) =>
    board.sources.get(place, name)
  read('sluice_shreds_source_in_total', 'Packets by source', get('packets'))
  read('sluice_shreds_source_first_total', 'Shreds of which it had the first copy', get('first'))
  read('sluice_shreds_source_late_total', 'Copies that others had sent before', get('duplicates'))
  read(
    'sluice_shreds_source_lag_samples_total',
    'Late copies whose lag was measured',
    get('lagSamples'),
  )
  read(
    'sluice_shreds_source_lag_seconds_total',
    'Sum of their lags behind the first copy',
    (place) => board.sources.get(place, 'lagMs') / 1000,
  )
}
