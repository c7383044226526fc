// The meters of usage that is pushed, read at scrape.
// Declared in every start, for docs and boards; where nothing is pushed they have no series.
import type { Meters } from '../../base/telemetry/meters.ts'
import type { UsagePush } from './push.ts'

export function declareUsagePushMeters(meters: Meters, push: UsagePush | null): void {
  const one = (value: (push: UsagePush) => number) => () =>
    push === null ? [] : [[{}, value(push)] as const]
  meters.gaugesRead(
    'sluice_usage_push_rows',
    'Rows of usage that the receiver has not confirmed',
    {},
    one((found) => found.report().rows),
  )
  meters.gaugesRead(
    'sluice_usage_push_age_seconds',
    'Time since the receiver had confirmed all usage; 0 while none waits',
    {},
    one((found) => found.report().ageMs / 1000),
  )
  meters.counterRead(
    'sluice_usage_push_records_total',
    'Records of usage that the receiver confirmed',
    {},
    one((found) => found.counts().confirmed),
  )
  meters.counterRead(
    'sluice_usage_push_failures_total',
    'Pushes of usage that failed; all of it is sent again',
    {},
    one((found) => found.counts().failures),
  )
  meters.counterRead(
    'sluice_usage_push_lost_rows_total',
    'Rows of usage that were not kept for the receiver because usage.push.rowsMax were',
    {},
    one((found) => found.report().lostRows),
  )
}
