// Declares the subscription: the fields an operator sees, and the digests stored with them.
// No type but `Issued` contains a token or a password.
import {
  type Check,
  isNumber,
  isText,
  listOf,
  matching,
  nullOr,
  objectOf,
} from '../../base/shape.ts'
import type { Destination } from './destination.ts'

/** The products of a subscription. `bundle` is rpc + websocket + grpc, sold only together. */
export const products = ['bundle', 'indexer', 'shredstream', 'dedicated-node'] as const
/** Of a credential of the operator API, and of an indexer that reads the feeds; not sold, and alone
 *  in its record. */
export const operatorProduct = 'operator'
export const feedsProduct = 'index-feeds'
export type Product = (typeof products)[number] | typeof operatorProduct | typeof feedsProduct

/** `expired` is never stored: it is an active one whose last day is over. */
export type SubscriptionState = 'active' | 'suspended' | 'ended' | 'expired'

export const noteKinds = ['provisioning', 'leak', 'refund', 'other'] as const
export type NoteKind = (typeof noteKinds)[number]

export interface Subscription {
  /** Short, readable, never reused: `sub_` and eight characters. Also the indexer's user. */
  readonly id: string
  /** The operator's name for it, unique among subscriptions that have not ended. */
  readonly label: string
  readonly products: readonly Product[]
  readonly plan: string
  readonly state: SubscriptionState
  /** Client networks that may use its token; empty means all. */
  readonly cidrs: readonly string[]
  readonly tokenLast4: string
  readonly destination: Destination | null
  /** The upstream set a dedicated node is bound to. */
  readonly upstream: string | null
  /** The newest note; older ones are in the audit table. */
  readonly note: string
  /** Its last day, `2026-12-31`, UTC; absent without an end. */
  readonly until?: string
  /** ISO 8601, UTC. The 30-day windows of the plan start here. */
  readonly createdAt: string
  readonly changedAt: string
}

/** A subscription as it is stored, with the hex SHA-256 digests of its secrets. */
export interface Registered {
  readonly subscription: Subscription
  readonly tokenDigest: string
  /** The previous token during the grace period after a rotation. */
  readonly retiring: { readonly digest: string; readonly untilMs: number } | null
  readonly passwordDigest: string | null
}

/** What the command shows of the credentials. */
export interface CredentialState {
  readonly tokenLast4: string
  readonly graceUntil: string | null
  readonly hasIndexerPassword: boolean
}

/** Who makes a change and why; both are written to the audit table. */
export interface By {
  readonly who: string
  readonly reason?: string
}

/** The request of `add`. Texts are unchecked operator input; changes.ts validates them. */
export interface AddRequest {
  readonly label: string
  readonly products: readonly string[]
  readonly plan?: string
  readonly cidrs?: readonly string[]
  readonly destination?: string
  readonly upstream?: string
  readonly until?: string
}

/** The request of `set`; only the given fields change, and an empty `until` removes the end. */
export type SetRequest = Partial<AddRequest>

/** Whether it is a credential of the operator API, and no customer's subscription. */
export function isOperator({ products }: Pick<Subscription, 'products'>): boolean {
  return products.includes(operatorProduct)
}

/** Whether it is the credential of an indexer, and no customer's subscription. */
export function isEnrolled({ products }: Pick<Subscription, 'products'>): boolean {
  return products.includes(feedsProduct)
}

const dayMs = 86_400_000

/** When the last day of a subscription is over; infinite without an end. */
export function endMsOf({ until }: Subscription): number {
  return until === undefined ? Number.POSITIVE_INFINITY : Date.parse(until) + dayMs
}

/** The subscription as it is at that time: an active one whose last day is over has expired. */
export function asOf(subscription: Subscription, nowMs: number): Subscription {
  if (subscription.state !== 'active' || nowMs < endMsOf(subscription)) return subscription
  return { ...subscription, state: 'expired' }
}

export interface IndexerCredentials {
  readonly user: string
  readonly password: string
}

/** The result of issuing: the only type that contains the secrets. */
export interface Issued {
  readonly subscription: Subscription
  readonly token: string
  readonly indexer: IndexerCredentials | null
}

const isDigest = matching(/^[0-9a-f]{64}$/)
const isTime: Check = (value) => typeof value === 'string' && !Number.isNaN(Date.parse(value))
const isRecord = objectOf({
  subscription: objectOf({
    id: matching(/^\w{1,64}$/),
    label: matching(/./),
    products: listOf(isText),
    plan: isText,
    // A state that only a later version knows gives no access here.
    state: matching(/./),
    cidrs: listOf(isText),
    tokenLast4: isText,
    destination: nullOr(objectOf({ address: isText, state: isText, standing: nullOr(isText) })),
    upstream: nullOr(isText),
    note: isText,
    createdAt: isTime,
    changedAt: isTime,
  }),
  tokenDigest: isDigest,
  retiring: nullOr(objectOf({ digest: isDigest, untilMs: isNumber })),
  passwordDigest: nullOr(isDigest),
})

/** Whether a value from outside is a stored subscription. */
export function isRegistered(value: unknown): value is Registered {
  return isRecord(value)
}
