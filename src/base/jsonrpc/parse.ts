// Parses JSON-RPC 2.0 requests strictly, and keeps each id exactly as its caller wrote it.
//
//   bytes -> text -> walk the envelope by hand -> JSON.parse only for params and what is unusual
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

/** Calls that were parsed before; jsonrpc/known-calls.ts. */
export interface CallMemory {
  /** The call in this text as the parser reads it; null when it is not known. */
  find(text: string): Call | null
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
  memory: CallMemory | null = null,
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
