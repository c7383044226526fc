// Messages of the gateway's feeds for the index: frames of the event log with the facts that rows
// need and frames do not contain, and facts that only the gateway has: tips and queries.
//
//   request   { after, run }           continues after this number of this run
//   answers   { run, after, lost }     where it continues, and what it left out
//             { seq, atMs, content }
//
// Both ends are ours: a message is the `pack` of one of these. Fields are only ever added.
import type { FrameFacts } from '../base/shared-log.ts'

export const feedMethods = {
  events: '/sluice.Feeds/Events',
  tips: '/sluice.Feeds/Tips',
  usage: '/sluice.Feeds/Usage',
} as const
export type ItemFeed = keyof typeof feedMethods
/** Feeds of facts, which only their gateway has. */
export type FactFeed = Exclude<ItemFeed, 'events'>
/** Names the facts of one run of a gateway. */
export type FactMark = `${FactFeed} ${string}`

export interface FeedRequest {
  /** Null: from the oldest item on. */
  readonly after: number | null
  /** '': of whatever run it is. */
  readonly run: string
}

/** What follows begins after this number. Comes first, and again where items were left out. */
export interface FeedStart {
  readonly run: string
  readonly after: number
  /** Items that are gone and were not sent. */
  readonly lost: number
}

export interface FeedItem {
  readonly seq: number
  /** When it happened: milliseconds since 1970. */
  readonly atMs: number
  readonly content: EventFact | TipFact | UsageFact
}

/** A frame of the event log: its JSON payload, and facts that are not in the payload. */
export interface EventFact {
  readonly seq: number
  readonly kind: string
  readonly payload: Uint8Array
  readonly facts: FrameFacts | null
}

/** How a submission to the TPU Sender ended. */
export interface TipFact {
  readonly receivedAtMs: number
  readonly signature: string
  readonly feePayer: string
  readonly tipAccount: string
  readonly lamports: bigint
  readonly outcome: string
  readonly reason: string
  readonly landedSlot: number
}

/** A query that ended. */
export interface UsageFact {
  readonly subscription: string
  readonly atMs: number
  readonly queryId: string
  readonly elapsedMs: number
  readonly rows: number
  readonly bytes: number
  /** 0 when it succeeded, else ClickHouse's error code. */
  readonly code: number
}
