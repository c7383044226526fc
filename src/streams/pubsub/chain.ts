// Declares what subscriptions need of a chain.
// The stream of updates feeds every notification. What a stream does not carry is read from the
// chain's nodes, asynchronously: mints of token accounts, and signatures that landed earlier.
import type { Commitment } from '../../base/commitment.ts'
import type { AccountData } from '../../chain/solana/json-parsed/parsed.ts'
import type { SignatureStatus, SolanaUpdate } from '../../chain/solana/updates.ts'
import type { Hub } from '../hub/hub.ts'

export interface PubsubChain {
  readonly hub: Hub<SolanaUpdate>
  /** False while no node has sent the stream for several seconds. */
  isUp(): boolean
  /** The newest slot of the stream at that commitment; 0 while it is unknown. */
  slot(commitment: Commitment): number
  /** Null for one that has not landed, `unavailable` when no node answered. Never rejects. */
  signatureStatus(signature: Uint8Array): Promise<LandedSignature | 'unavailable' | null>
  /** The accounts in the order of their keys, processed; null for a missing one. Never rejects. */
  readAccounts(keys: readonly Uint8Array[]): Promise<readonly (AccountData | null)[]>
}

export type LandedSignature = Pick<SignatureStatus, 'slot' | 'err' | 'commitment'>
