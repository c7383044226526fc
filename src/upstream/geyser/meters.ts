// The meters of the geyser streams out of the nodes. Thread: main.
// Counted in plain numbers per set and read at scrape: a meter costs more than a message.
import type { Meters } from '../../telemetry/meters.ts'

/** Counted by a set's feed. */
export interface FeedCounts {
  messages: number
  bytes: number
  connections: number
  failures: number
}

/** Counted by whoever takes the messages apart. */
export interface ToldCounts {
  readonly duplicates: number
  readonly gapSlots: number
  readonly incompleteBlocks: number
  readonly rewrittenBlocks: number
  readonly unreadable: number
}

export interface FeedReading {
  readonly set: string
  readonly isUp: boolean
  readonly slot: number | null
  readonly counts: FeedCounts & ToldCounts
}

export function declareGeyserMeters(meters: Meters, read: () => readonly FeedReading[]): void {
  // The sets are the configuration's; a meter without series is declared all the same.
  const labels = { set: [] as string[] }
  const counter = (name: string, help: string, count: keyof (FeedCounts & ToldCounts)) =>
    meters.counterRead(`sluice_upstream_geyser_${name}_total`, help, labels, function* () {
      for (const { set, counts } of read()) yield [{ set }, counts[count]]
    })
  counter('messages', 'Messages that nodes sent on the geyser stream of a set', 'messages')
  counter('bytes', 'Bytes of those messages', 'bytes')
  counter('connections', 'Geyser streams that a node began to send', 'connections')
  counter('failures', 'Geyser streams that ended or did not begin', 'failures')
  counter('gap_slots', 'Slots that no node could tell again after a failure', 'gapSlots')
  counter('duplicates', 'Messages left out because they were told before', 'duplicates')
  counter('incomplete_blocks', 'Blocks whose parts never came together', 'incompleteBlocks')
  counter('rewritten_blocks', 'Blocks that a node told otherwise later', 'rewrittenBlocks')
  counter('unreadable', 'Messages that are no geyser updates', 'unreadable')
  meters.gaugesRead(
    'sluice_upstream_geyser_up',
    'Whether a node of the set sends its geyser stream',
    labels,
    function* () {
      for (const { set, isUp } of read()) yield [{ set }, isUp ? 1 : 0]
    },
  )
  meters.gaugesRead(
    'sluice_upstream_geyser_slot',
    'Newest slot that the geyser stream of a set told of',
    labels,
    function* () {
      for (const { set, slot } of read()) if (slot !== null) yield [{ set }, slot]
    },
  )
}
