// Finds the result or error in a server's response, so that a proxy can forward its bytes under
// another id without parsing them.
//
//   {"jsonrpc":"2.0","result": … ,"id":1}        the usual order, seen by comparing bytes
//   {"jsonrpc":"2.0","id":1,"result": … }        the other one
//   any other order, spaces, further members     a walk over the members
//
// Texts are Latin-1 views of the bytes, so offsets in them are offsets in the bytes; characters
// outside ASCII occur in strings only. The walk finds where values end and does not validate them.
import { skipSpace, walkMembers } from './scan.ts'

export interface Opening {
  readonly isError: boolean
  /** Offset of the value. */
  readonly start: number
}

export interface Split extends Opening {
  /** Offset after the value's last byte. */
  readonly end: number
}

/** Bytes at the end of a response that are enough to find where its value ends, with spaces. */
export const CLOSING_BYTES = 128

/** Before the result in the usual order. */
export const USUAL = '{"jsonrpc":"2.0","result":'
const USUAL_ERROR = '{"jsonrpc":"2.0","error":{'
/** Old servers write the absent one of the two as null. */
const ABSENT_ERROR = ',"error":null'
/** Members that may follow the value, up to the end of the response. */
const CLOSING =
  /(?:\s*,\s*"(?:jsonrpc"\s*:\s*"2\.0"|error"\s*:\s*null|id"\s*:\s*\d{1,15}))*\s*\}\s*$/
const CLOSING_ID = /"id"\s*:\s*(\d+)/g
const DEPTH_MAX = 1_000_000
const QUOTE = 0x22
const OPENING_BRACKET = 0x5b
const CLOSING_BRACKET = 0x5d
const OPENING_BRACE = 0x7b
const CLOSING_BRACE = 0x7d

/** Splits a whole response to the call of this id, a number as text; null when it is not one. */
export function splitAnswer(text: string, id = '1'): Split | null {
  const opening = usualOpening(text)
  if (opening !== null) {
    const { isError, start } = opening
    const end = usualClosing(text, id)
    if (end > start && isPair(text.charCodeAt(start), text.charCodeAt(end - 1)))
      return { isError, start, end }
  }
  return walkWhole(text, id)
}

/** The opening of a long response, from its first bytes; null when they do not contain it. */
export function openingOf(head: string, id = '1'): Opening | null {
  const usual = usualOpening(head)
  if (usual !== null) return usual
  let found: Opening | null = null
  walkMembers(head, skipSpace(head, 0), DEPTH_MAX, (key, start, end) => {
    const isError = key === 'error' && head.slice(start, end) !== 'null'
    if (isError || key === 'result') found = { isError, start }
    return found === null && (key !== 'id' || head.slice(start, end) === id)
  })
  return found
}

/** Where the value ends, from the last bytes of a response; -1 when they do not end one. */
export function closingOf(tail: string, id = '1'): number {
  const usual = usualClosing(tail, id)
  if (usual !== -1) return usual
  const found = CLOSING.exec(tail)
  if (found === null) return -1
  const isOurs = [...found[0].matchAll(CLOSING_ID)].every((one) => one[1] === id)
  return isOurs ? found.index : -1
}

/** False when a value that begins with this byte cannot end with that one. */
export function isPair(first: number, last: number): boolean {
  if (first === OPENING_BRACE) return last === CLOSING_BRACE
  if (first === OPENING_BRACKET) return last === CLOSING_BRACKET
  return (first === QUOTE) === (last === QUOTE)
}

function usualOpening(text: string): Opening | null {
  if (text.startsWith(USUAL)) return { isError: false, start: USUAL.length }
  if (text.startsWith(USUAL_ERROR)) return { isError: true, start: USUAL_ERROR.length - 1 }
  return null
}

function usualClosing(text: string, id: string): number {
  const end = `,"id":${id}}`
  const at = text.length - end.length - (text.endsWith('\n') ? 1 : 0)
  if (!text.startsWith(end, at)) return -1
  return text.endsWith(ABSENT_ERROR, at) ? at - ABSENT_ERROR.length : at
}

function walkWhole(text: string, id: string): Split | null {
  let result: Split | null = null
  let error: Split | null = null
  let hasId = false
  const end = walkMembers(text, skipSpace(text, 0), DEPTH_MAX, (key, start, valueEnd) => {
    if (valueEnd === -1) return false
    if (key === 'id') hasId = text.slice(start, valueEnd) === id
    else if (key === 'result') result = { isError: false, start, end: valueEnd }
    else if (key === 'error' && text.slice(start, valueEnd) !== 'null')
      error = { isError: true, start, end: valueEnd }
    return true
  })
  if (end === -1 || skipSpace(text, end) !== text.length || !hasId) return null
  return error ?? result
}
