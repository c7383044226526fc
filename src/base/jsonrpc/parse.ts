// Parses JSON-RPC 2.0 requests strictly, and keeps each id exactly as its caller wrote it.
//
//   bytes -> text -> known call
//                 -> walk the envelope by hand -> JSON.parse for params and what is unusual
//
// A parsed number loses how it was written (1.0, 1e2, 18446744073709551615), so ids are slices of
// the text. The walk only finds where values end; JSON.parse or an exact comparison decides
// whether a value is JSON. Tested against a slow, obvious version.
import { isAscii, isUtf8 } from 'node:buffer'
import { type RpcError, rpcErrors } from './build.ts'
import { isOpeningBrace, skipSpace, skipValue, walkMembers } from './scan.ts'

export interface Call {
  readonly method: string
  /** Undefined when absent. Numbers beyond 2^53 are in `paramsText` alone. */
  readonly params: unknown
  /** The params as written; '' when absent. */
  readonly paramsText: string
  /** The id as written; null for a notification. */
  readonly id: string | null
}

/** An item that is not a call; it is answered under its id, or under null without an id. */
export interface NoCall {
  readonly method: null
  readonly id: string
  readonly error: RpcError
}

export type Item = Call | NoCall

/** A request with at least one item, exactly one unless it is a batch. */
export interface RpcRequest {
  readonly isBatch: boolean
  readonly items: readonly Item[]
}

/** Deeper nesting is refused; no valid request comes near. */
export const DEPTH_MAX = 128

/**
 * Never throws. What is not JSON, an empty batch and one longer than `itemsMax` become a single
 * item that is answered with an error under id null.
 */
export function parseRequest(
  body: Buffer,
  itemsMax: number,
  memory: KnownCalls | null = null,
): RpcRequest {
  const text = decode(body)
  if (text === null) return broken(rpcErrors.parse)
  const known = memory?.find(text) ?? null
  return known === null ? parseText(text, itemsMax) : { isBatch: false, items: [known] }
}

/** The call in a text that is one; null for anything else. */
export function parseCall(text: string): Call | null {
  const { isBatch, items } = parseText(text, 1)
  const [item] = items
  return isBatch || item === undefined || item.method === null ? null : item
}

function parseText(text: string, itemsMax: number): RpcRequest {
  const start = skipSpace(text, 0)
  if (text.charCodeAt(start) === OPENING_BRACKET) return readBatch(text, start, itemsMax)
  const walk: Walk = { text, at: start }
  const item = readItem(walk, DEPTH_MAX)
  if (item === null || skipSpace(text, walk.at) !== text.length) return broken(rpcErrors.parse)
  return { isBatch: false, items: [item] }
}

/** The text and how far it was read. */
interface Walk {
  readonly text: string
  at: number
}

function decode(body: Buffer): string | null {
  if (isAscii(body)) return body.toString('latin1')
  return isUtf8(body) ? body.toString('utf8') : null
}

function readBatch(text: string, start: number, itemsMax: number): RpcRequest {
  const walk: Walk = { text, at: skipSpace(text, start + 1) }
  const items = readItems(walk)
  if (items === null || skipSpace(text, walk.at) !== text.length) return broken(rpcErrors.parse)
  if (items.length === 0) return broken(rpcErrors.invalidRequest)
  if (items.length <= itemsMax) return { isBatch: true, items }
  const message = `Invalid request: a batch has at most ${itemsMax} items`
  return broken({ code: rpcErrors.invalidRequest.code, message })
}

/** Reads to the bracket that closes the batch; null when it is not JSON. */
function readItems(walk: Walk): Item[] | null {
  const { text } = walk
  const items: Item[] = []
  if (text.charCodeAt(walk.at) === CLOSING_BRACKET) {
    walk.at++
    return items
  }
  for (;;) {
    walk.at = skipSpace(text, walk.at)
    const item = readItem(walk, DEPTH_MAX - 1)
    if (item === null) return null
    items.push(item)
    walk.at = skipSpace(text, walk.at)
    const code = text.charCodeAt(walk.at++)
    if (code === CLOSING_BRACKET) return items
    if (code !== COMMA) return null
  }
}

/** Reads one value as a request; null when it is not JSON or too deep. */
function readItem(walk: Walk, depthMax: number): Item | null {
  const { text, at } = walk
  if (isOpeningBrace(text.charCodeAt(at))) return readObject(walk, depthMax)
  const end = skipValue(text, at, depthMax)
  if (end === -1 || !isJson(text.slice(at, end))) return null
  walk.at = end
  return noCall('null')
}

/** The members of a request that were read so far. */
interface Members {
  isVersion2: boolean
  method: string | null
  id: string | null
  isIdValid: boolean
  params: unknown
  paramsText: string
}

function readObject(walk: Walk, depthMax: number): Item | null {
  const { text } = walk
  const members: Members = {
    isVersion2: false,
    method: null,
    id: null,
    isIdValid: true,
    params: undefined,
    paramsText: '',
  }
  const end = walkMembers(text, walk.at, depthMax, (key, valueStart, valueEnd) => {
    return valueEnd !== -1 && takeMember(members, key, text.slice(valueStart, valueEnd))
  })
  if (end === -1) return null
  walk.at = end
  return itemOf(members)
}

/** Stores a member; false when its key or value is not JSON. The last of duplicate keys counts. */
function takeMember(members: Members, key: string, value: string): boolean {
  switch (key) {
    case 'jsonrpc':
      members.isVersion2 = value === '"2.0"' || parsed(value) === '2.0'
      return members.isVersion2 || isJson(value)
    case 'method': {
      const method = PLAIN_TEXT.test(value) ? value.slice(1, -1) : parsed(value)
      members.method = typeof method === 'string' ? method : null
      return method !== undefined
    }
    case 'id': {
      members.id = value
      if (PLAIN_TEXT.test(value) || PLAIN_INTEGER.test(value)) {
        members.isIdValid = true
        return true
      }
      const id = parsed(value)
      members.isIdValid = id === null || typeof id === 'string' || typeof id === 'number'
      return id !== undefined
    }
    case 'params':
      members.paramsText = value
      members.params = parsed(value)
      return members.params !== undefined
    default: {
      if (!key.includes('\\')) return isJson(`"${key}"`) && isJson(value)
      const plain = parsed(`"${key}"`)
      if (plain === undefined) return false
      // A known key written with escapes; its plain form has no backslash, so this ends.
      return KNOWN.has(plain) ? takeMember(members, String(plain), value) : isJson(value)
    }
  }
}

function itemOf({ isVersion2, method, id, isIdValid, params, paramsText }: Members): Item {
  if (!isIdValid) return noCall('null')
  const hasParams = params === undefined || typeof params === 'object'
  if (!isVersion2 || method === null || !hasParams) return noCall(id ?? 'null')
  return { method, params: params ?? undefined, paramsText, id }
}

const COMMA = 0x2c
const OPENING_BRACKET = 0x5b
const CLOSING_BRACKET = 0x5d
const KNOWN: ReadonlySet<unknown> = new Set(['jsonrpc', 'method', 'id', 'params'])

/** Texts and integers that are certainly valid JSON. */
const PLAIN_TEXT = /^"[\x20\x21\x23-\x5b\x5d-\x7e]*"$/
const PLAIN_INTEGER = /^(?:0|[1-9]\d*)$/

/** The value of a JSON text; undefined when it is not valid JSON. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function isJson(text: string): boolean {
  return parsed(text) !== undefined
}

function noCall(id: string, error: RpcError = rpcErrors.invalidRequest): NoCall {
  return { method: null, id, error }
}

function broken(error: RpcError): RpcRequest {
  return { isBatch: false, items: [noCall('null', error)] }
}

/** What the strict parser found, for any id. */
interface Known {
  readonly method: string
  readonly params: unknown
  readonly paramsText: string
}

/** Texts that are known; when there are more, all of them are forgotten. */
const knownMax = 2_048
const textMax = 512
const idMax = 64
/** Texts that were seen once, each at the place that its length and some characters name. */
const seenMax = 1_024

/** How common clients begin a request with its id. */
const openings = ['{"jsonrpc":"2.0","id":', '{"id":'] as const
/** How others end it. */
const idMember = ',"id":'

const quote = 0x22
const backslash = 0x5c
const closingBrace = 0x7d
const zero = 0x30

/**
 * Recognises calls that were parsed before, whatever their id: clients ask the same again and
 * again. One object per endpoint.
 * A request is cut at its id: `{"jsonrpc":"2.0","id":` 7 `,"method":"getSlot","params":[]}`. The
 * strict parser has read the same text before with another id in that place, and found it there; a
 * plain text or integer in the same place is then an id, too, and everything else is as it was.
 */
export class KnownCalls {
  /** By what precedes and follows the id. */
  readonly #byOpening = openings.map(() => new Map<string, Known>())
  readonly #byBeginning = new Map<string, Known>()
  readonly #seen = new Array<string>(seenMax).fill('')
  readonly #parse: (text: string) => Call | null

  /** `parse` is the strict parser; null for a text that is not one call. */
  constructor(parse: (text: string) => Call | null = parseCall) {
    this.#parse = parse
  }

  /** Null for a text that is not known yet: the strict parser has to read it. */
  find(text: string): Call | null {
    if (text.length > textMax + idMax) return null
    for (let shape = 0; shape < openings.length; shape++) {
      const opening = openings[shape]!
      if (!text.startsWith(opening)) continue
      const start = opening.length
      const end = idEnd(text, start)
      if (end === -1) return null
      return this.#known(this.#byOpening[shape]!, text.slice(end), text, start, end)
    }
    const start = text.lastIndexOf(idMember) + idMember.length
    const end = start < idMember.length ? -1 : idEnd(text, start)
    if (end !== text.length - 1 || text.charCodeAt(end) !== closingBrace) return null
    return this.#known(this.#byBeginning, text.slice(0, start), text, start, end)
  }

  #known(
    map: Map<string, Known>,
    rest: string,
    text: string,
    start: number,
    end: number,
  ): Call | null {
    const known = map.get(rest) ?? this.#learn(map, rest, text, start, end)
    if (known === null) return null
    const { method, params, paramsText } = known
    return { method, params, paramsText, id: text.slice(start, end) }
  }

  /** From the second time on: a text that never comes again costs no more than a comparison. */
  #learn(
    map: Map<string, Known>,
    rest: string,
    text: string,
    start: number,
    end: number,
  ): Known | null {
    const { length } = rest
    const sum = rest.charCodeAt(length >> 1) + rest.charCodeAt(length - 4) * 31
    const place = (length * 7 + sum) & (seenMax - 1)
    if (this.#seen[place] !== rest) {
      this.#seen[place] = rest
      return null
    }
    // An id that no caller knows: a second id member of the text cannot have it.
    const id = `"${Math.random()} ${Math.random()}"`
    const call = this.#parse(`${text.slice(0, start)}${id}${text.slice(end)}`)
    if (call === null || call.id !== id) return null
    const { method, params, paramsText } = call
    if (map.size >= knownMax) map.clear()
    map.set(rest, { method, params, paramsText })
    return { method, params, paramsText }
  }
}

/** After a plain text or integer; -1 when the id is anything else. */
function idEnd(text: string, start: number): number {
  const limit = Math.min(text.length, start + idMax)
  const first = text.charCodeAt(start)
  if (first === quote) {
    for (let at = start + 1; at < limit; at++) {
      const code = text.charCodeAt(at)
      if (code === quote) return at + 1
      if (code < 0x20 || code > 0x7e || code === backslash) return -1
    }
    return -1
  }
  let at = start
  while (at < limit && isDigit(text.charCodeAt(at))) at++
  return at === start || (first === zero && at > start + 1) ? -1 : at
}

function isDigit(code: number): boolean {
  return code >= zero && code <= zero + 9
}
