// Declares the subscription: the fields an operator sees, and the digests stored with them.
// No type but `Issued` contains a token or a password.

import {
  containsAny,
  formatAddress,
  type IpAddress,
  parseAddress,
  parseCidr,
} from '../../base/cidr.ts'
import { accept, type Outcome, refuse } from '../../base/errors.ts'
import {
  type Check,
  isNumber,
  isText,
  listOf,
  matching,
  nullOr,
  objectOf,
} from '../../base/shape.ts'

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

// Validates shred destinations and moves them between their states.
// Pure: the store keeps the value, the shredstream product acts on it.
//
//   set -> pending -> active <-> paused        proof: challenge echoed, or operator confirms
//             |  ^
//             v  | set again
//           failed                             ten challenges without a reply
//
// While a new address is pending or failed, the previous proven one (`standing`) still receives.

export type DestinationState = 'pending' | 'active' | 'paused' | 'failed'

export interface Destination {
  /** `ip:port` or `[ipv6]:port`, in canonical form. */
  readonly address: string
  readonly state: DestinationState
  /** The proven address that receives until `address` is proven, or null. */
  readonly standing: string | null
}

/** What the configuration adds to the fixed list of refused addresses. */
export interface DestinationRules {
  /** Private and loopback addresses may be destinations (`shredstream.allowPrivate`). */
  readonly allowPrivate: boolean
  /** Our own listeners: a destination must not make us send shreds to ourselves. */
  readonly own: readonly { readonly host: string; readonly port: number }[]
  /** This machine's addresses, on which a listener on 0.0.0.0 or :: receives. */
  readonly interfaces: readonly string[]
}

export const strictRules: DestinationRules = { allowPrivate: false, own: [], interfaces: [] }

// Ports below this belong to system services.
const portMin = 1024

const refused = ranges([
  ['unspecified', '0.0.0.0/8', '::/128'],
  ['multicast', '224.0.0.0/4', 'ff00::/8'],
  ['broadcast or reserved', '240.0.0.0/4'],
  ['link-local', '169.254.0.0/16', 'fe80::/10'],
  ['documentation', '192.0.2.0/24', '198.51.100.0/24', '203.0.113.0/24'],
  ['documentation', '2001:db8::/32', '3fff::/20'],
  // These embed an IPv4 address, which would bypass the ranges above.
  ['translated', '::/96', '64:ff9b::/96', '64:ff9b:1::/48', '2002::/16'],
])
const loopback = ['127.0.0.0/8', '::1/128'].map((text) => parseCidr(text)!)
const inner = ranges([
  ['loopback', '127.0.0.0/8', '::1/128'],
  ['private', '10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', '100.64.0.0/10', 'fc00::/7'],
])

/** The canonical form of a permitted destination, or a refusal that names the problem. */
export function parseDestination(text: string, rules: DestinationRules): Outcome<string> {
  const endpoint = parseEndpoint(text)
  if (endpoint === null)
    return no('write it as 198.18.0.7:20000 or [2001:…]:20000; host names are not accepted')
  const { address, port } = endpoint
  if (address.isMapped) return no('write the IPv4 address without ::ffff:')
  if (port < portMin) return no(`ports below ${portMin} are not accepted`)
  const innerKind = kindIn(inner, address)
  if (innerKind !== null && !rules.allowPrivate)
    return no(`a ${innerKind} address is accepted only with shredstream.allowPrivate`)
  const kind = innerKind === null ? kindIn(refused, address) : null
  if (kind !== null) return no(`a ${kind} address cannot be a destination`)
  if (isOwnListener(address, port, rules)) return no('this server listens on that address')
  return accept(writeEndpoint(address, port))
}

/** The address that receives shreds now; null when none does. */
export function servedAddress(destination: Destination | null): string | null {
  if (destination === null || destination.state === 'paused') return null
  return destination.state === 'active' ? destination.address : destination.standing
}

/** Proposes a new address. Returning to the proven one needs no new proof. */
export function proposeDestination(current: Destination | null, address: string): Destination {
  const proven = servedAddress(current)
  if (proven === address) return { ...current, address, state: 'active', standing: null }
  return { ...current, address, state: 'pending', standing: proven }
}

/** Sets the address to proven: the challenge was echoed, or the operator confirmed it. */
export function confirmDestination(current: Destination): Outcome<Destination> {
  if (current.state !== 'pending' && current.state !== 'failed')
    return wrongState(`it is ${current.state}, there is nothing to confirm`)
  return accept({ ...current, state: 'active', standing: null })
}

/** Sets the address to failed: no challenge was answered. */
export function failDestination(current: Destination): Outcome<Destination> {
  if (current.state !== 'pending') return wrongState(`it is ${current.state}, not pending`)
  return accept({ ...current, state: 'failed' })
}

/** Stops sending. An unproven proposal is dropped in favour of the address that received. */
export function pauseDestination(current: Destination): Outcome<Destination> {
  const served = servedAddress(current)
  if (served === null) return wrongState(`it is ${current.state}, nothing is being sent`)
  return accept({ ...current, address: served, state: 'paused', standing: null })
}

/** Sends again. The address was proven before it was paused, so it needs no new proof. */
export function resumeDestination(current: Destination): Outcome<Destination> {
  if (current.state !== 'paused') return wrongState(`it is ${current.state}, not paused`)
  return accept({ ...current, state: 'active' })
}

/** Parses `ip:port`; null when malformed. */
export function parseEndpoint(text: string): { address: IpAddress; port: number } | null {
  const match = /^(?:\[([^\]]+)\]|([^:[\]]+)):([1-9]\d{0,4})$/.exec(text)
  if (match === null) return null
  const address = parseAddress(match[1] ?? match[2]!)
  const port = Number(match[3])
  const isBracketed = match[1] !== undefined
  if (address === null || port > 65_535) return null
  const isWrittenAsV6 = address.family === 6 || address.isMapped
  return isBracketed === isWrittenAsV6 ? { address, port } : null
}

function writeEndpoint(address: IpAddress, port: number): string {
  const text = formatAddress(address)
  return address.family === 6 ? `[${text}]:${port}` : `${text}:${port}`
}

function isOwnListener(address: IpAddress, port: number, rules: DestinationRules): boolean {
  const text = formatAddress(address)
  return rules.own.some((listener) => {
    if (listener.port !== port) return false
    const host = parseAddress(listener.host)
    if (host === null || host.words.every((word) => word === 0))
      return containsAny(loopback, address) || rules.interfaces.includes(text)
    return formatAddress(host) === text
  })
}

function ranges(rows: readonly (readonly [string, ...string[]])[]) {
  return rows.map(([kind, ...cidrs]) => ({ kind, cidrs: cidrs.map((text) => parseCidr(text)!) }))
}

function kindIn(table: ReturnType<typeof ranges>, address: IpAddress): string | null {
  return table.find((row) => containsAny(row.cidrs, address))?.kind ?? null
}

function no(sentence: string) {
  return refuse('invalid', 'bad-destination', `destination refused: ${sentence}`)
}

function wrongState(sentence: string) {
  return refuse('rejected', 'destination-state', `destination unchanged: ${sentence}`)
}
