// Declares the meters of the TPU Sender. Rejections are plain numbers, read at
// scrape: that path is the hottest, since anyone may send anything.
import type { Meters } from '../../base/telemetry/meters.ts'
import { type RejectReason, rejectReasons } from './refusals.ts'

const outcomes = ['landed', 'expired', 'failed'] as const
/** How a submission ends. Landed: in a confirmed block, and it succeeded: the tip was paid. */
export type Ending = (typeof outcomes)[number]

const sendResults = ['ok', 'refused', 'unavailable'] as const

/** From the minimum tip to 10 SOL. */
const tipBuckets = [1e6, 2e6, 5e6, 1e7, 2e7, 5e7, 1e8, 1e9, 1e10]
const landSlotBuckets = [0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 150]
/** To the end of a blockhash. */
const landSecondBuckets = [0.2, 0.4, 0.6, 0.8, 1, 1.5, 2, 3, 5, 8, 13, 21, 34, 60, 90]

export type TpuMeters = ReturnType<typeof declareTpuMeters>

export interface ForwardState {
  inFlight(): number
  queued(): number
  upstreamsUp(): number
}

/** One count per reason. */
class Rejections {
  readonly #counts = new Map<string, number>(rejectReasons.map((reason) => [reason, 0]))

  count(reason: string): void {
    this.#counts.set(reason, (this.#counts.get(reason) ?? 0) + 1)
  }

  read(): readonly (readonly [RejectReason, number])[] {
    return rejectReasons.map((reason) => [reason, this.#counts.get(reason) ?? 0])
  }
}

export function declareTpuMeters(meters: Meters) {
  const rejected = new Rejections()
  meters.counterRead(
    'sluice_tpu_rejected_total',
    'Submissions that were refused, by reason',
    { reason: rejectReasons },
    () => rejected.read().map(([reason, count]) => [{ reason }, count] as const),
  )
  let states: () => readonly ForwardState[] = () => []
  const sum = (figure: keyof ForwardState) => () =>
    states().reduce((total, state) => total + state[figure](), 0)
  meters.gaugeRead(
    'sluice_tpu_in_flight',
    'Accepted submissions that have not ended',
    sum('inFlight'),
  )
  meters.gaugeRead('sluice_tpu_queued', 'Submissions queued for a healthy upstream', sum('queued'))
  meters.gaugeRead('sluice_tpu_upstreams_up', 'Upstreams that are healthy', sum('upstreamsUp'))
  return {
    accepted: meters.counter('sluice_tpu_accepted_total', 'Submissions that were accepted'),
    duplicates: meters.counter(
      'sluice_tpu_duplicates_total',
      'Duplicate submissions: the same bytes were accepted before',
    ),
    rejected,
    tips: meters.histogram('sluice_tpu_tip_lamports', 'Tips of accepted submissions', tipBuckets),
    tipsLanded: meters.counter(
      'sluice_tpu_tips_landed_lamports_total',
      'Tips of submissions that landed, and so were paid',
    ),
    endings: meters.counters(
      'sluice_tpu_outcomes_total',
      'Accepted submissions by outcome',
      'outcome',
      outcomes,
    ),
    sends: meters.counters(
      'sluice_tpu_sends_total',
      'Sends to upstreams by result',
      'result',
      sendResults,
    ),
    landSlots: meters.histogram(
      'sluice_tpu_land_slots',
      'Slots from acceptance to landing',
      landSlotBuckets,
    ),
    landSeconds: meters.histogram(
      'sluice_tpu_land_seconds',
      'Time from acceptance to the confirmed block that a submission landed in',
      landSecondBuckets,
    ),
    forward: meters.latency(
      'sluice_tpu_forward_seconds',
      'Time from the head of a request to the forwarding of its transaction',
    ),
    /** Sets the source of the gauges, which are summed at scrape. */
    watch(watched: () => readonly ForwardState[]) {
      states = watched
    },
  }
}
