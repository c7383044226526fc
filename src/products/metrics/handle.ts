// Parses the requests of an event stream client: the query at connect, and subscribe messages.
// No sockets here, so that tests call it directly.
import { accept, type Outcome, refuse } from '../../base/errors.ts'
import { type StreamKind, streamKinds } from '../../streams/log/encoded.ts'

/** Largest u64: block numbers and cursors of the spec are u64. */
const u64Max = 2n ** 64n - 1n

/** Longest `run` that is compared; ours are shorter, and nothing else can match. */
const runCharsMax = 64

export interface Connect {
  readonly kinds: readonly StreamKind[]
  /** Null: the client has no cursor. Beyond 2^53 it is rounded, which is beyond any seq as well. */
  readonly resumeFrom: number | null
  /** Null: not given, any run matches. */
  readonly run: string | null
}

/** Parses `events`, `resume_from` and `run`; `parameter` returns null for an absent one. */
export function parseConnect(parameter: (name: string) => string | null): Outcome<Connect> {
  const kinds = parseEvents(parameter('events'))
  if (!kinds.ok) return kinds
  const cursor = parameter('resume_from')
  const resumeFrom = cursor === null ? null : parseU64(cursor)
  if (cursor !== null && resumeFrom === null)
    return refuse('invalid', 'invalid_resume_from', 'resume_from must be a sequence number')
  const run = parameter('run')
  return accept({
    kinds: kinds.value,
    resumeFrom: resumeFrom === null ? null : Number(resumeFrom),
    run: run === null ? null : run.slice(0, runCharsMax),
  })
}

/** A number in a path or a query: decimal digits within u64, exactly; null otherwise. */
export function parseU64(text: string): bigint | null {
  if (!/^\d{1,20}$/.test(text)) return null
  const value = BigInt(text)
  return value > u64Max ? null : value
}

/** Parses a client's text message. Codes: bad_message, empty_subscribe, unknown_kind. */
export function parseMessage(text: string): Outcome<readonly StreamKind[]> {
  let message: unknown
  try {
    message = JSON.parse(text)
  } catch {
    return badMessage('the message is not JSON')
  }
  if (!isObject(message) || !Object.hasOwn(message, 'subscribe'))
    return badMessage('send {"subscribe":["TPS"]}')
  const requested = message.subscribe
  if (Array.isArray(requested)) return parseKinds(requested)
  if (!isObject(requested) || !Array.isArray(requested.events))
    return badMessage('subscribe takes a list of kinds or {"events":[…]}')
  // An unknown field might be a filter: ignoring it would send more than was requested.
  const unknown = Object.keys(requested).find((key) => key !== 'events')
  return unknown === undefined
    ? parseKinds(requested.events)
    : badMessage('subscribe has no fields beside events')
}

export function badMessage(message: string): Outcome<never> {
  return refuse('invalid', 'bad_message', message)
}

function parseEvents(text: string | null): Outcome<readonly StreamKind[]> {
  if (text === null) return accept(streamKinds)
  if (text === '') return refuse('invalid', 'empty_subscribe', 'events names no kind')
  return parseKinds(text.split(','))
}

/** The requested kinds, deduplicated. An empty list is refused: it never means "all". */
function parseKinds(names: readonly unknown[]): Outcome<readonly StreamKind[]> {
  if (names.length === 0) return refuse('invalid', 'empty_subscribe', 'name at least one kind')
  const kinds = new Set<StreamKind>()
  for (const name of names) {
    const kind = streamKinds.find((known) => known === name)
    if (kind === undefined)
      return refuse('invalid', 'unknown_kind', `the kinds are ${streamKinds.join(', ')}`)
    kinds.add(kind)
  }
  return accept([...kinds])
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
