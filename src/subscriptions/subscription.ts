// What a subscription is: the fields an operator sees, and the digests kept beside them.
// Thread: any (types and tables only). Nothing here ever holds a token or a password.
import type { Destination } from './destination.ts'

/** What a subscription can hold. `bundle` is rpc + websocket + grpc, never apart. */
export const products = ['bundle', 'indexer', 'shredstream', 'dedicated-node'] as const
export type Product = (typeof products)[number]

export type SubscriptionState = 'active' | 'suspended' | 'ended'

export const noteKinds = ['provisioning', 'leak', 'refund', 'other'] as const
export type NoteKind = (typeof noteKinds)[number]

export interface Subscription {
  /** Short, readable, unique for ever: `sub_` and eight characters. Also the indexer's user. */
  readonly id: string
  /** The operator's name for it, unique among those not ended. */
  readonly label: string
  readonly products: readonly Product[]
  readonly plan: string
  readonly state: SubscriptionState
  /** Where its token may be used from; empty means anywhere. */
  readonly cidrs: readonly string[]
  readonly tokenLast4: string
  readonly destination: Destination | null
  /** The upstream set a dedicated node is bound to. */
  readonly upstream: string | null
  /** The newest note; older ones stand in the audit table. */
  readonly note: string
  /** ISO 8601, UTC. The 30-day windows of the plan start here. */
  readonly createdAt: string
  readonly changedAt: string
}

/** A subscription as it is stored: with the digests of its secrets, hex SHA-256. */
export interface Registered {
  readonly subscription: Subscription
  readonly tokenDigest: string
  /** The token before the last rotation while its grace lasts. */
  readonly retiring: { readonly digest: string; readonly untilMs: number } | null
  readonly passwordDigest: string | null
}

/** What the command shows of the credentials besides the last four characters. */
export interface CredentialState {
  readonly tokenLast4: string
  readonly graceUntil: string | null
  readonly hasIndexerPassword: boolean
}

/** Who asks for a change and why; both go into the audit table. */
export interface By {
  readonly who: string
  readonly reason?: string
}

/** What `add` takes. Texts come straight from the operator and are checked by changes.ts. */
export interface AddRequest {
  readonly label: string
  readonly products: readonly string[]
  readonly plan?: string
  readonly cidrs?: readonly string[]
  readonly destination?: string
  readonly upstream?: string
}

/** What `set` takes: the same, only what is given changes. */
export interface SetRequest {
  readonly label?: string
  readonly products?: readonly string[]
  readonly plan?: string
  readonly cidrs?: readonly string[]
  readonly destination?: string
  readonly upstream?: string
}

export interface IndexerCredentials {
  readonly user: string
  readonly password: string
}

/** Secrets are in here once, at issue, and nowhere else. */
export interface Issued {
  readonly subscription: Subscription
  readonly token: string
  readonly indexer: IndexerCredentials | null
}
