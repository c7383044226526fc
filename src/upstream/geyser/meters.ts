// The meters of the geyser streams from upstream nodes.
// Counted in plain numbers per set and read at scrape: a meter is too expensive per message.
import type { Meters } from '../../base/telemetry/meters.ts'

/** Counted by the feed of a set. */
export interface FeedCounts {
  messages: number
  bytes: number
  connections: number
  failures: number
}

/** Counted by the sink of the messages. */
export interface SinkCounts {
  readonly duplicates: number
  readonly gapSlots: number
  readonly incompleteBlocks: number
  readonly rewrittenBlocks: number
  readonly replacedBanks: number
  readonly restarts: number
  readonly unreadable: number
  readonly droppedSlots: number
}

export interface FeedReading {
  readonly set: string
  readonly isUp: boolean
  readonly slot: number | null
  /** Measured. */
  readonly slotMs: number
  /** Of the accounts that are kept current by the stream. */
  readonly accountBytes: number
  /** Of the last blocks with their transactions. */
  readonly historyBytes: number
  readonly counts: FeedCounts & SinkCounts
  /** Counted by the sink, by the names of the nodes that had a stream. */
  readonly nodes: ReadonlyMap<string, { readonly first: number; readonly disputed: number }>
}

export function declareGeyserMeters(meters: Meters, read: () => readonly FeedReading[]): void {
  // The names of sets come from the configuration.
  const labels = { set: [] as string[] }
  const counter = (name: string, help: string, count: keyof (FeedCounts & SinkCounts)) =>
    meters.counterRead(`sluice_upstream_geyser_${name}_total`, help, labels, function* () {
      for (const { set, counts } of read()) yield [{ set }, counts[count]]
    })
  counter('messages', 'Messages that nodes sent on the geyser stream of a set', 'messages')
  counter('bytes', 'Bytes of those messages', 'bytes')
  counter('connections', 'Geyser streams opened to nodes', 'connections')
  counter('failures', 'Geyser streams that failed or ended', 'failures')
  counter('gap_slots', 'Slots lost in a failover: no node could replay them', 'gapSlots')
  counter(
    'duplicates',
    'Messages discarded that this or another stream of the set had sent before',
    'duplicates',
  )
  counter('incomplete_blocks', 'Blocks published without some of their updates', 'incompleteBlocks')
  counter(
    'rewritten_blocks',
    'Blocks that a node replayed with different content',
    'rewrittenBlocks',
  )
  counter(
    'replaced_banks',
    'Banks that a node replaced by another one of the same slot',
    'replacedBanks',
  )
  counter(
    'dropped_slots',
    'Slots dropped before they were finalized: too much waited for that',
    'droppedSlots',
  )
  counter(
    'restarts',
    'Times the stream began anew because no node follows what was published',
    'restarts',
  )
  counter('unreadable', 'Messages discarded as malformed', 'unreadable')
  declareNodeMeters(meters, read)
  const gauge = (name: string, help: string, valueIn: (reading: FeedReading) => number | null) =>
    meters.gaugesRead(`sluice_upstream_geyser_${name}`, help, labels, function* () {
      for (const reading of read()) {
        const value = valueIn(reading)
        if (value !== null) yield [{ set: reading.set }, value]
      }
    })
  gauge('up', '1 while a node of the set delivers its geyser stream', ({ isUp }) => Number(isUp))
  gauge('slot', 'Newest slot received on the geyser stream of a set', ({ slot }) => slot)
  gauge(
    'slot_seconds',
    'Slot time by the geyser stream of a set: the median of the last 64 blocks, 0.05 to 0.8',
    ({ slotMs }) => slotMs / 1_000,
  )
  gauge(
    'account_bytes',
    'Memory of accounts that are kept current by the geyser stream of a set to answer calls',
    ({ accountBytes }) => accountBytes,
  )
  gauge(
    'history_bytes',
    'Memory of the last blocks from the geyser stream of a set, kept to answer calls',
    ({ historyBytes }) => historyBytes,
  )
}

function declareNodeMeters(meters: Meters, read: () => readonly FeedReading[]): void {
  // As above; so do the names of nodes.
  const labels = { set: [] as string[], node: [] as string[] }
  const perNode = (name: string, help: string, count: 'first' | 'disputed') =>
    meters.counterRead(`sluice_upstream_geyser_${name}_total`, help, labels, function* () {
      for (const { set, nodes } of read())
        for (const [node, counts] of nodes) yield [{ set, node }, counts[count]]
    })
  perNode(
    'first_arrivals',
    'Accounts, transactions and entries that this node was the first of its set to send',
    'first',
  )
  perNode(
    'disputed_blocks',
    'Slots that this node confirmed with another blockhash than its set had confirmed',
    'disputed',
  )
}
