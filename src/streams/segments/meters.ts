// The meters of the stream logs, read at scrape.
import type { Meters } from '../../base/telemetry/meters.ts'
import type { StreamLogCounts } from './stream-log.ts'

export interface StreamLogReading extends StreamLogCounts {
  readonly set: string
}

export function declareStreamLogMeters(
  meters: Meters,
  read: () => readonly StreamLogReading[],
): void {
  const labels = { set: [] as string[] }
  const gauge = (name: string, help: string, value: (one: StreamLogReading) => number | null) =>
    meters.gaugesRead(`sluice_stream_log_${name}`, help, labels, function* () {
      for (const one of read()) {
        const found = value(one)
        if (found !== null) yield [{ set: one.set }, found]
      }
    })
  gauge('up', '1 while the stream of a set is kept on disk', ({ isUp }) => (isUp ? 1 : 0))
  gauge('bytes', 'Bytes of the stream of a set that are kept on disk', ({ bytes }) => bytes)
  gauge('oldest_slot', 'Oldest slot that from_slot can name', ({ oldestSlot }) => oldestSlot)
  meters.counterRead(
    'sluice_stream_log_resets_total',
    'Times the kept stream of a set was removed: disk too slow, full or failed, or another chain',
    labels,
    function* () {
      for (const { set, resets } of read()) yield [{ set }, resets]
    },
  )
}
