// Finds result or error in an answer of a server, so that its bytes can go on under another id
// without being parsed. Thread: any (pure). Called by whoever passes answers on.
//
//   {"jsonrpc":"2.0","result": … ,"id":1}        the usual order, seen by comparing bytes
//   {"jsonrpc":"2.0","id":1,"result": … }        the other one
//   any other order, spaces, further members     a walk over the members
//
// Texts are Latin-1 views of the bytes, so places in them are places in the bytes; what is outside
// ASCII stands in strings alone. The walk finds where values end and does not judge them.
import { skipSpace, skipString, skipValue } from './scan.ts'

export interface Opening {
  readonly isError: boolean
  /** Where the value begins. */
  readonly start: number
}

export interface Split extends Opening {
  /** Behind the value's last byte. */
  readonly end: number
}

/** Bytes at the end of an answer that tell where its value ends, spaces and all. */
export const CLOSING_BYTES = 128

const USUAL = '{"jsonrpc":"2.0","result":'
const USUAL_ERROR = '{"jsonrpc":"2.0","error":'
const USUAL_END = ',"id":1}'
const USUAL_END_LINE = ',"id":1}\n'
/** Members that may stand behind the value, up to the end of the answer. */
const CLOSING = /(?:\s*,\s*"(?:jsonrpc"\s*:\s*"2\.0"|id"\s*:\s*1))*\s*\}\s*$/
const DEPTH_MAX = 1_000_000
const QUOTE = 0x22
const OPENING_BRACKET = 0x5b
const CLOSING_BRACKET = 0x5d
const OPENING_BRACE = 0x7b
const CLOSING_BRACE = 0x7d

/** Splits a whole answer to a call whose id was 1; null when it is none. */
export function splitAnswer(text: string): Split | null {
  const opening = usualOpening(text)
  if (opening !== null) {
    const { isError, start } = opening
    const end = usualClosing(text)
    if (end > start && isPair(text.charCodeAt(start), text.charCodeAt(end - 1)))
      return { isError, start, end }
  }
  return walkWhole(text)
}

/** The opening of a long answer by its first bytes; null when they do not tell. */
export function openingOf(head: string): Opening | null {
  const usual = usualOpening(head)
  if (usual !== null) return usual
  let found: Opening | null = null
  walk(head, (key, start, end) => {
    if (key === 'result' || key === 'error') found = { isError: key === 'error', start }
    const isOther = key === 'id' && head.slice(start, end) !== '1'
    return found === null && !isOther
  })
  return found
}

/** Where the value ends, by the last bytes of an answer; -1 when they do not end one. */
export function closingOf(tail: string): number {
  const usual = usualClosing(tail)
  return usual === -1 ? tail.search(CLOSING) : usual
}

/** False when a value that begins with this byte cannot end with that one. */
export function isPair(first: number, last: number): boolean {
  if (first === OPENING_BRACE) return last === CLOSING_BRACE
  if (first === OPENING_BRACKET) return last === CLOSING_BRACKET
  return (first === QUOTE) === (last === QUOTE)
}

function usualOpening(text: string): Opening | null {
  if (text.startsWith(USUAL)) return { isError: false, start: USUAL.length }
  if (text.startsWith(USUAL_ERROR)) return { isError: true, start: USUAL_ERROR.length }
  return null
}

function usualClosing(text: string): number {
  if (text.endsWith(USUAL_END)) return text.length - USUAL_END.length
  return text.endsWith(USUAL_END_LINE) ? text.length - USUAL_END_LINE.length : -1
}

function walkWhole(text: string): Split | null {
  let result: Split | null = null
  let error: Split | null = null
  let hasId = false
  const end = walk(text, (key, start, valueEnd) => {
    if (valueEnd === -1) return false
    if (key === 'id') hasId = text.slice(start, valueEnd) === '1'
    else if (key === 'result') result = { isError: false, start, end: valueEnd }
    // Old servers write the absent one of the two as null.
    else if (key === 'error' && text.slice(start, valueEnd) !== 'null')
      error = { isError: true, start, end: valueEnd }
    return true
  })
  if (end === -1 || skipSpace(text, end) !== text.length || !hasId) return null
  return error ?? result
}

/**
 * Shows each member with the places of its value (end -1 when the text ends inside it) until
 * `take` says false. The place behind the closing brace; -1 when it was not reached.
 */
function walk(text: string, take: (key: string, start: number, end: number) => boolean): number {
  let at = skipSpace(text, 0)
  if (text[at] !== '{') return -1
  at = skipSpace(text, at + 1)
  if (text[at] === '}') return at + 1
  for (;;) {
    const keyEnd = text[at] === '"' ? skipString(text, at) : -1
    if (keyEnd === -1) return -1
    const colon = skipSpace(text, keyEnd)
    if (text[colon] !== ':') return -1
    const start = skipSpace(text, colon + 1)
    const end = skipValue(text, start, DEPTH_MAX)
    if (!take(text.slice(at + 1, keyEnd - 1), start, end) || end === -1) return -1
    at = skipSpace(text, end)
    if (text[at] === '}') return at + 1
    if (text[at] !== ',') return -1
    at = skipSpace(text, at + 1)
  }
}
