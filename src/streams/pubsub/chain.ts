// Declares what subscriptions need of a chain.
// The stream of updates feeds every notification. What a stream does not carry is read from the
// chain's nodes, asynchronously: mints of token accounts, and signatures that landed earlier.
import type { Commitment } from '../../base/commitment.ts'
import type { AccountData } from '../../chain/solana/json-parsed/parsed.ts'
import type { SignatureStatus, SolanaUpdate } from '../../chain/solana/updates.ts'
import type { Shapes } from '../../chain/solana/version.ts'
import type { Hub, KeptStream } from '../hub/hub.ts'

export interface PubsubChain {
  readonly hub: Hub<SolanaUpdate>
  /** What was published earlier than the hub remembers; none where it is turned off. */
  readonly streamLog?: KeptStream<SolanaUpdate> | null
  /** False while no node has sent the stream for several seconds. */
  isUp(): boolean
  /** Of its nodes' version. */
  shapes(): Shapes
  /** The newest slot of the stream at that commitment; 0 while it is unknown. */
  slot(commitment: Commitment): number
  /**
   * Null for one that has not landed, `unavailable` when no node answered. Never rejects. Among the
   * recent ones, or among all that nodes have.
   */
  signatureStatus(
    signature: Uint8Array,
    withHistory?: boolean,
  ): Promise<LandedSignature | 'unavailable' | null>
  /** The accounts in the order of their keys, processed; null for a missing one. Never rejects. */
  readAccounts(keys: readonly Uint8Array[]): Promise<readonly (AccountData | null)[]>
}

export type LandedSignature = Pick<SignatureStatus, 'slot' | 'err' | 'commitment'>

// What subscriptions need of a connection and of the customer who pays for it.

/** Limits and meters of one customer over all its connections; a quota budget is one. */
export interface Customer {
  readonly plan: {
    readonly subscriptionsPerConnection: number
    readonly distinctSubscriptions: number
    /** Keys in a list of a subscription that changes them. */
    readonly filterKeys: number
  }
  /** Takes a permit for one more distinct subscription; false when the plan has no more. */
  enter(kind: 'distinctSubscriptions'): boolean
  leave(kind: 'distinctSubscriptions'): void
  meter(kind: 'bytes' | 'notifications', count: number): void
  /** Charges a notification; false when the plan has no more and the feed must end. */
  chargeNotification(bytes: number): boolean
  /** Milliseconds until notifications of another feed may be made; 0 is now. */
  notificationWaitMs(): number
}

/** One connection, as subscriptions see it. */
export interface Session {
  readonly budget: Customer
  /** Sends a message that is no answer; metered as a notification. */
  notify(message: string | Uint8Array): void
  /** Sends what is published under a topic, before the turn ends; its feed meters it. */
  sendNow(message: Uint8Array): void
  /** From now on receives what is published under the topic. */
  join(topic: string): void
  leave(topic: string): void
  /** False while so much is unsent that what is not urgent waits. */
  hasRoom(): boolean
  /** A connection that reads too slowly falls behind or is closed; called after so many bytes
   *  were published to it. */
  checkUnsent(publishedBytes: number): void
  /** Runs when the connection has ended, whoever ended it. */
  onEnd(release: () => void): void
}
