// The meters of the geyser streams from upstream nodes.
// Counted in plain numbers per set and read at scrape: a meter is too expensive per message.
import type { Meters } from '../../base/telemetry/meters.ts'

/** By the names of their meters in camel case: what they count. */
const counters = {
  messages: 'Messages that nodes sent on the geyser stream of a set',
  bytes: 'Bytes of those messages',
  connections: 'Geyser streams opened to nodes',
  failures: 'Geyser streams that failed or ended',
  gapSlots: 'Slots lost in a failover: no node could replay them',
  duplicates: 'Messages discarded that this or another stream of the set had sent before',
  incompleteBlocks: 'Blocks published without some of their updates',
  rewrittenBlocks: 'Blocks that a node replayed with different content',
  replacedBanks: 'Banks that a node replaced by another one of the same slot',
  droppedSlots: 'Slots dropped before they were finalized: too much waited for that',
  restarts: 'Times the stream began anew because no node follows what was published',
  unreadable: 'Messages discarded as malformed',
}
type Counts = Record<keyof typeof counters, number>

/** Counted by the feed of a set; the others by the sink of the messages. */
export type FeedCounts = Pick<Counts, 'messages' | 'bytes' | 'connections' | 'failures'>

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
  readonly counts: Readonly<Counts>
  /** Counted by the sink, by the names of the nodes that had a stream. */
  readonly nodes: ReadonlyMap<string, { readonly first: number; readonly disputed: number }>
}

export function declareGeyserMeters(meters: Meters, read: () => readonly FeedReading[]): void {
  // The names of sets come from the configuration.
  const labels = { set: [] as string[] }
  for (const [key, help] of Object.entries(counters)) {
    const name = key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
    meters.counterRead(`sluice_upstream_geyser_${name}_total`, help, labels, function* () {
      // Reason for the cast: the entries of an object lose the type of its keys.
      for (const { set, counts } of read()) yield [{ set }, counts[key as keyof Counts]]
    })
  }
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
