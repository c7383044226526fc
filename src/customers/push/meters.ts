// The meters of usage and notices that are pushed, read at scrape.
// Declared in every start, for docs and boards; where nothing is pushed they have no series.
import type { Meters } from '../../base/telemetry/meters.ts'
import type { Push } from './push.ts'

export function declareUsagePushMeters(meters: Meters, push: Push | null): void {
  meters.gaugeRead(
    'sluice_usage_push_rows',
    'Rows of usage that the receiver has not confirmed',
    () => push?.report().rows,
  )
  meters.gaugeRead(
    'sluice_usage_push_age_seconds',
    'Time since the receiver had confirmed all usage; 0 while none waits',
    () => push && push.report().ageMs / 1000,
  )
  meters.totalRead(
    'sluice_usage_push_records_total',
    'Records of usage that the receiver confirmed',
    () => push?.counts().confirmed,
  )
  meters.totalRead(
    'sluice_usage_push_failures_total',
    'Pushes of usage that failed; all of it is sent again',
    () => push?.counts().failures,
  )
  meters.totalRead(
    'sluice_usage_push_lost_rows_total',
    'Rows of usage that were not kept for the receiver because usage.push.rowsMax were',
    () => push?.report().lostRows,
  )
}

export function declareNoticeMeters(meters: Meters, push: Push | null): void {
  meters.gaugeRead(
    'sluice_webhook_notices_waiting',
    'Notices that the receiver of webhooks.url has not confirmed',
    () => push?.report().rows,
  )
  meters.totalRead(
    'sluice_webhook_failures_total',
    'Notices that could not be sent; they are sent again',
    () => push?.counts().failures,
  )
}
