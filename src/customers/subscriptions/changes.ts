// Validates provisioning requests: a record and a request in, the changed record or a refusal out.
// Pure, so that store.ts only has to run them inside its transaction.
import { formatCidr, parseCidr } from '../../base/cidr.ts'
import { accept, type Outcome, type Refusal, refuse } from '../../base/errors.ts'
import { digestOf, holdsToken, idPrefix } from './issue.ts'
import {
  type AddRequest,
  type DestinationRules,
  feedsProduct,
  isEnrolled,
  operatorProduct,
  type Product,
  parseDestination,
  products,
  proposeDestination,
  type Registered,
  type SetRequest,
  type Subscription,
} from './subscription.ts'

/** What the installation offers; requests are checked against it. */
export interface Known {
  /** Who offers it, for error messages. */
  readonly holder?: string
  readonly plans: readonly string[]
  /** Names of the configured upstream sets; absent when the caller does not know them. */
  readonly upstreams?: readonly string[]
  readonly destinationRules: DestinationRules
}

const cidrsMax = 64
const textCharsMax = 500
/** Of credentials of the operator API. */
const operatorIdPrefix = 'op_'
const labelForm = /^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$/

/** Names that sound like a product, and why each is not one. */
const notProducts: Readonly<Record<string, string>> = {
  'shredstream-decoded': 'ShredStream Decoded is coming soon',
  tpu: 'tpu is open access: the tip authorizes a transaction, it needs no subscription',
  metrics: 'metrics is not a subscription product',
  rpc: 'rpc is part of bundle',
  websocket: 'websocket is part of bundle',
  grpc: 'grpc is part of bundle',
}

type Secrets = Pick<Registered, 'tokenDigest' | 'passwordDigest'> & { tokenLast4: string }
type Made = { readonly id: string; readonly at: string; readonly secrets: Secrets }

/** Makes a new record. The store checks that label and destination are unique. */
export function newRecord(request: AddRequest, known: Known, made: Made): Outcome<Registered> {
  const blank = blankRecord(request.label, [], made)
  return changedRecord(blank, { plan: 'standard', ...request }, known)
}

/** The record of a credential of the operator API. */
export function operatorRecord(label: string, made: Made): Outcome<Registered> {
  const id = made.id.replace(idPrefix, operatorIdPrefix)
  return checkLabel(label) ?? accept(blankRecord(label, [operatorProduct], { ...made, id }))
}

/** The record of an indexer's credential. */
export function enrolledRecord(
  request: Pick<AddRequest, 'label' | 'cidrs'>,
  known: Known,
  made: Made,
): Outcome<Registered> {
  return changedRecord(blankRecord(request.label, [feedsProduct], made), request, known)
}

function blankRecord(
  label: string,
  products: readonly Product[],
  { id, at, secrets }: Made,
): Registered {
  return {
    subscription: {
      id,
      label,
      products,
      plan: 'standard',
      state: 'active',
      cidrs: [],
      tokenLast4: secrets.tokenLast4,
      destination: null,
      upstream: null,
      note: '',
      createdAt: at,
      changedAt: at,
    },
    tokenDigest: secrets.tokenDigest,
    retiring: null,
    passwordDigest: secrets.passwordDigest,
  }
}

/**
 * Applies a request to a record. Removing a product removes what only that product needs. What the
 * request does not name is kept, also what only a later version knows.
 */
export function changedRecord(
  record: Registered,
  request: SetRequest,
  known: Known,
): Outcome<Registered> {
  const before = record.subscription
  const label = request.label ?? before.label
  const labelProblem = checkLabel(label)
  if (labelProblem !== null) return labelProblem
  const isKept = request.products === undefined
  if (isEnrolled(before) && Object.keys(request).some((key) => !['label', 'cidrs'].includes(key)))
    return refuse('rejected', 'enrolled', `${label} is the credential of an indexer`)
  const held = isKept ? accept(before.products) : parseProducts(request)
  if (!held.ok) return held
  const plan = request.plan ?? before.plan
  if (request.plan !== undefined && !known.plans.includes(plan))
    return invalid(
      'unknown-plan',
      `${holderOf(known)} has no plan "${plan}"; its plans are ${known.plans.join(', ')}`,
    )
  const cidrs = request.cidrs === undefined ? accept(before.cidrs) : parseCidrs(request.cidrs)
  if (!cidrs.ok) return cidrs
  const upstream = chooseUpstream(before, held.value, request.upstream, known)
  if (!upstream.ok) return upstream
  const destination = chooseDestination(before, held.value, request.destination, known)
  if (!destination.ok) return destination
  const end = chooseEnd(before, request.until)
  if (!end.ok) return end
  const { until: _, ...rest } = before
  return accept({
    ...record,
    passwordDigest: isKept || held.value.includes('indexer') ? record.passwordDigest : null,
    subscription: {
      ...rest,
      ...end.value,
      label,
      plan,
      products: held.value,
      cidrs: cidrs.value,
      upstream: upstream.value,
      destination: destination.value,
    },
  })
}

/** True when the change gives the indexer to a subscription that has no password for it yet. */
export function needsPassword(record: Registered): boolean {
  return record.subscription.products.includes('indexer') && record.passwordDigest === null
}

export function moveState(
  record: Registered,
  verb: 'suspend' | 'resume' | 'end',
): Outcome<Registered> {
  const { subscription } = record
  const from = { suspend: ['active'], resume: ['suspended'], end: ['active', 'suspended'] }[verb]
  if (!from.includes(subscription.state))
    return refuse('rejected', 'wrong-state', `${subscription.id} is ${subscription.state}`)
  if (verb === 'end') {
    const ended: Subscription = { ...subscription, state: 'ended', destination: null }
    return accept({ ...record, retiring: null, subscription: ended })
  }
  const state = verb === 'suspend' ? 'suspended' : 'active'
  return accept({ ...record, subscription: { ...subscription, state } })
}

/** Checks a text that is stored forever: short, one line, and without a secret. */
export function checkKeptText(
  name: string,
  text: string,
  record: Registered | null,
): { ok: false; refusal: Refusal } | null {
  if (text.length > textCharsMax)
    return invalid('bad-text', `the ${name} is longer than ${textCharsMax} characters`)
  if (/\p{Cc}/u.test(text)) return invalid('bad-text', `the ${name} contains control characters`)
  const words = text.match(/[0-9A-Za-z]{32}/g) ?? []
  const isPassword = (word: string) => digestOf(word) === record?.passwordDigest
  if (holdsToken(text) || words.some(isPassword))
    return invalid('holds-secret', `the ${name} contains a token or password; remove it`)
  return null
}

function checkLabel(label: string): { ok: false; refusal: Refusal } | null {
  const prefixes = [idPrefix, operatorIdPrefix]
  const prefix = prefixes.find((one) => label.startsWith(one)) ?? idPrefix
  if (!labelForm.test(label) || label.startsWith(prefix))
    return invalid(
      'bad-label',
      `a label is 1 to 64 letters, digits or . _ @ -, and does not start with ${prefix}`,
    )
  return checkKeptText('label', label, null)
}

function parseProducts(request: { readonly products?: readonly string[] }): Outcome<Product[]> {
  const asked = request.products ?? []
  for (const name of asked) {
    const reason = Object.hasOwn(notProducts, name) ? notProducts[name] : undefined
    if (reason !== undefined) return refuse('rejected', 'not-a-product', reason)
    if (!products.some((product) => product === name))
      return invalid(
        'unknown-product',
        `no product "${name}"; the products are ${products.join(', ')}`,
      )
  }
  if (asked.length === 0) return invalid('no-product', `name one of ${products.join(', ')}`)
  return accept(products.filter((product) => asked.includes(product)))
}

function parseCidrs(texts: readonly string[]): Outcome<string[]> {
  if (texts.length > cidrsMax) return invalid('too-many-cidrs', `at most ${cidrsMax} CIDRs`)
  const written = new Set<string>()
  for (const text of texts) {
    const cidr = parseCidr(text)
    if (cidr === null)
      return invalid(
        'bad-cidr',
        'write a CIDR as 192.168.4.0/24, with all bits after the prefix zero',
      )
    written.add(formatCidr(cidr))
  }
  return accept([...written])
}

function chooseUpstream(
  before: Subscription,
  held: readonly Product[],
  asked: string | undefined,
  known: Known,
): Outcome<string | null> {
  // A product of a later version may use it, too.
  if (asked === undefined && held === before.products) return accept(before.upstream)
  if (!held.includes('dedicated-node')) {
    if (asked === undefined) return accept(null)
    return invalid('no-dedicated-node', 'an upstream set needs the product dedicated-node')
  }
  const upstream = asked ?? before.upstream
  if (upstream === null)
    return invalid('no-upstream', 'dedicated-node needs an upstream set to be bound to')
  if (asked !== undefined && known.upstreams?.includes(asked) === false)
    return invalid('unknown-upstream', `${holderOf(known)} has no upstream set "${asked}"`)
  return accept(upstream)
}

function chooseDestination(
  before: Subscription,
  held: readonly Product[],
  asked: string | undefined,
  known: Known,
): Outcome<Subscription['destination']> {
  const isHeld = held.includes('shredstream')
  if (asked === undefined)
    return accept(isHeld || held === before.products ? before.destination : null)
  if (!isHeld) return invalid('no-shredstream', 'a destination needs the product shredstream')
  const address = parseDestination(asked, known.destinationRules)
  if (!address.ok) return address
  return accept(proposeDestination(before.destination, address.value))
}

function chooseEnd(
  { until }: Subscription,
  asked: string | undefined,
): Outcome<{ readonly until?: string }> {
  if (asked === undefined) return accept(until === undefined ? {} : { until })
  if (asked === '') return accept({})
  const isDate = /^\d{4}-\d{2}-\d{2}$/.test(asked) && !Number.isNaN(Date.parse(asked))
  // A day that its month does not have is parsed as one of the next month by some engines.
  if (!isDate || new Date(asked).toISOString().slice(0, 10) !== asked)
    return invalid('bad-until', 'write the last day as 2026-12-31 (UTC); "" removes it')
  return accept({ until: asked })
}

function invalid(code: string, message: string) {
  return refuse('invalid', code, message)
}

function holderOf({ holder = 'the configuration' }: Known): string {
  return holder
}
