// Reads JSON-RPC 2.0 requests strictly, and keeps each id exactly as its caller wrote it.
// Thread: any (pure). Called by jsonrpc/serve.ts and by whoever takes single calls.
// JSON.parse decides what is JSON; a scanner then finds the text of `id` and `params`, because a
// parsed number has forgotten how it was written (1.0, 1e2, 18446744073709551615).
import { isUtf8 } from 'node:buffer'
import { type RpcError, rpcErrors } from './build.ts'

export interface Call {
  readonly method: string
  /** Undefined when absent. Numbers beyond 2^53 are in `paramsText` alone. */
  readonly params: unknown
  /** The params as written; '' when absent. */
  readonly paramsText: string
  /** The id as written; null for a notification. */
  readonly id: string | null
}

/** An item that is no call; it is answered under its id, or under null when it has none. */
export interface NoCall {
  readonly method: null
  readonly id: string
  readonly error: RpcError
}

export type Item = Call | NoCall

export type Parsed =
  | { readonly kind: 'single'; readonly item: Item }
  | { readonly kind: 'batch'; readonly items: readonly Item[] }
  /** Nothing in it can be answered one by one: a single error with id null. */
  | { readonly kind: 'broken'; readonly error: RpcError }

/** Deeper nesting is refused before it is parsed; no lawful request comes near. */
export const DEPTH_MAX = 128

/** Never throws. A batch longer than `itemsMax` is refused whole. */
export function parseRequests(body: Buffer, itemsMax: number): Parsed {
  if (!isUtf8(body)) return broken(rpcErrors.parse)
  const text = body.toString('utf8')
  if (!isWithinDepth(text)) return broken(rpcErrors.parse)
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    return broken(rpcErrors.parse)
  }
  const start = skipSpace(text, 0)
  if (!Array.isArray(value)) return { kind: 'single', item: readItem(text, start, value) }
  if (value.length === 0) return broken(rpcErrors.invalidRequest)
  if (value.length > itemsMax)
    return broken({
      code: -32600,
      message: `Invalid request: a batch has at most ${itemsMax} items`,
    })
  return { kind: 'batch', items: readItems(text, start, value) }
}

function readItems(text: string, start: number, values: readonly unknown[]): Item[] {
  let at = start + 1
  return values.map((value) => {
    at = skipSpace(text, at)
    const item = readItem(text, at, value)
    // Past the item, the space behind it, and the comma or bracket.
    at = skipSpace(text, skipValue(text, at)) + 1
    return item
  })
}

function readItem(text: string, start: number, value: unknown): Item {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return noCall('null')
  const { jsonrpc, id, method, params } = value as Record<string, unknown>
  const hasId = id !== undefined
  if (hasId && id !== null && typeof id !== 'string' && typeof id !== 'number')
    return noCall('null')
  const spans = findSpans(text, start)
  const idText = hasId ? text.slice(spans.idStart, spans.idEnd) : null
  const hasParams = params === undefined || (typeof params === 'object' && params !== null)
  if (jsonrpc !== '2.0' || typeof method !== 'string' || !(hasParams || params === null))
    return noCall(idText ?? 'null')
  const paramsText = text.slice(spans.paramsStart, spans.paramsEnd)
  return { method, params: params ?? undefined, paramsText, id: idText }
}

function noCall(id: string): NoCall {
  return { method: null, id, error: rpcErrors.invalidRequest }
}

function broken(error: RpcError): Parsed {
  return { kind: 'broken', error }
}

interface Spans {
  idStart: number
  idEnd: number
  paramsStart: number
  paramsEnd: number
}

/** Where `id` and `params` of the object at `start` are written; of repeated keys the last counts,
 *  as it does in JSON.parse. The text is known to be JSON. */
function findSpans(text: string, start: number): Spans {
  const spans = { idStart: 0, idEnd: 0, paramsStart: 0, paramsEnd: 0 }
  let at = skipSpace(text, start + 1)
  while (text.charCodeAt(at) === QUOTE) {
    const keyEnd = skipString(text, at)
    const key = keyBetween(text, at + 1, keyEnd - 1)
    const valueStart = skipSpace(text, skipSpace(text, keyEnd) + 1)
    const valueEnd = skipValue(text, valueStart)
    if (key === 'id') {
      spans.idStart = valueStart
      spans.idEnd = valueEnd
    } else if (key === 'params') {
      spans.paramsStart = valueStart
      spans.paramsEnd = valueEnd
    }
    // Past the comma, or past the closing brace, where no quote can follow inside this object.
    at = skipSpace(text, valueEnd)
    if (text.charCodeAt(at) !== COMMA) return spans
    at = skipSpace(text, at + 1)
  }
  return spans
}

function keyBetween(text: string, start: number, end: number): string {
  const key = text.slice(start, end)
  return key.includes('\\') ? (JSON.parse(`"${key}"`) as string) : key
}

const QUOTE = 0x22
const COMMA = 0x2c
const BACKSLASH = 0x5c

function skipSpace(text: string, start: number): number {
  let at = start
  for (;;) {
    const code = text.charCodeAt(at)
    if (code !== 0x20 && code !== 0x0a && code !== 0x0d && code !== 0x09) return at
    at++
  }
}

/** The place behind the string that opens at `start`. */
function skipString(text: string, start: number): number {
  let at = start + 1
  for (;;) {
    const code = text.charCodeAt(at)
    if (code === QUOTE) return at + 1
    at += code === BACKSLASH ? 2 : 1
  }
}

/** The place behind the value that begins at `start`. */
function skipValue(text: string, start: number): number {
  let depth = 0
  let at = start
  do {
    const code = text.charCodeAt(at)
    if (code === QUOTE) at = skipString(text, at)
    else {
      if (isOpening(code)) depth++
      else if (isClosing(code)) depth--
      at++
      if (depth === 0 && !isClosing(code)) while (isScalar(text.charCodeAt(at))) at++
    }
  } while (depth > 0)
  return at
}

function isOpening(code: number): boolean {
  return code === 0x5b || code === 0x7b
}

function isClosing(code: number): boolean {
  return code === 0x5d || code === 0x7d
}

/** Digits, letters, sign and point: what numbers and the three words are made of. */
function isScalar(code: number): boolean {
  return (code >= 0x30 && code <= 0x39) || (code >= 0x61 && code <= 0x7a) || isNumberMark(code)
}

function isNumberMark(code: number): boolean {
  return code === 0x2b || code === 0x2d || code === 0x2e || code === 0x45
}

/** Works on any text, JSON or not: a quote that never closes ends the count. */
function isWithinDepth(text: string): boolean {
  // Each level takes two characters, so a short text cannot be deep.
  if (text.length <= DEPTH_MAX * 2) return true
  let depth = 0
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === QUOTE) {
      at = closingQuote(text, at + 1)
    } else if (isOpening(code)) {
      if (++depth > DEPTH_MAX) return false
    } else if (isClosing(code)) depth--
  }
  return true
}

function closingQuote(text: string, start: number): number {
  let at = start
  while (at < text.length) {
    const code = text.charCodeAt(at)
    if (code === QUOTE) return at
    at += code === BACKSLASH ? 2 : 1
  }
  return at
}
