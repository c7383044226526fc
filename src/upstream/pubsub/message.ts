// Reads what a node says over PubSub without parsing the results in it. Thread: any (pure).
// Called by node-socket.ts and recovery.ts.
//
//   {"jsonrpc":"2.0","method":"xNotification","params":{"result":R,"subscription":N}}
//
// Nodes write exactly this, so R is found from both ends: what lies between is taken as it stands.
// Everything else (other order of members, spaces, answers) is walked member by member.
import type { RpcError } from '../../jsonrpc/build.ts'
import { skipSpace, skipString, skipValue } from '../../jsonrpc/scan.ts'

export type NodeMessage =
  | { readonly kind: 'notice'; readonly subscription: string; readonly result: string }
  | { readonly kind: 'answer'; readonly id: string; readonly result: string }
  | { readonly kind: 'error'; readonly id: string; readonly error: RpcError }

/** As deep as any lawful result nests, and then some. */
const DEPTH_MAX = 256
const OPENING = /^\{"jsonrpc":"2\.0","method":"[A-Za-z]{1,32}Notification","params":\{"result":/
const SUBSCRIPTION = ',"subscription":'
/** As long as a 64-bit number gets, with the brackets behind it. */
const TAIL_CHARS_MAX = SUBSCRIPTION.length + 20 + 2
const TAIL = /^,"subscription":(\d{1,20})\}\}$/
const SLOT = /^\{"context":\{(?:"apiVersion":"[^"]*",)?"slot":(\d{1,16})/

/** Null for what is neither a notification nor an answer. Never throws. */
export function readMessage(text: string): NodeMessage | null {
  const opening = OPENING.exec(text)
  if (opening !== null) {
    const at = text.lastIndexOf(SUBSCRIPTION)
    const tail = text.length - at > TAIL_CHARS_MAX ? null : TAIL.exec(text.slice(at))
    if (tail !== null && at > opening[0].length)
      return { kind: 'notice', subscription: tail[1]!, result: text.slice(opening[0].length, at) }
  }
  const members = membersOf(text)
  if (members === null) return null
  const { method, params, id, result, error } = members
  if (method !== undefined) return params === undefined ? null : noticeOf(params)
  if (id === undefined) return null
  if (error !== undefined && error !== 'null') return { kind: 'error', id, error: errorOf(error) }
  return result === undefined ? null : { kind: 'answer', id, result }
}

export type Members = Readonly<Record<string, string | undefined>>

/** The members of an object as the texts of their values; null when it is none. */
export function membersOf(text: string): Members | null {
  const members: Record<string, string> = Object.create(null)
  let at = skipSpace(text, 0)
  if (text[at] !== '{') return null
  at = skipSpace(text, at + 1)
  while (text[at] === '"') {
    const keyEnd = skipString(text, at)
    const colon = keyEnd === -1 ? -1 : skipSpace(text, keyEnd)
    if (colon === -1 || text[colon] !== ':') return null
    const start = skipSpace(text, colon + 1)
    const end = skipValue(text, start, DEPTH_MAX)
    if (end === -1) return null
    members[text.slice(at + 1, keyEnd - 1)] = text.slice(start, end)
    at = skipSpace(text, end)
    if (text[at] === ',') at = skipSpace(text, at + 1)
  }
  return text[at] === '}' ? members : null
}

/** The slot in the context of a result; null when it has none. */
export function slotOf(result: string): number | null {
  const found = SLOT.exec(result)
  if (found !== null) return Number(found[1])
  const { context = '' } = membersOf(result) ?? {}
  const { slot = '' } = membersOf(context) ?? {}
  return /^\d+$/.test(slot) ? Number(slot) : null
}

function noticeOf(params: string): NodeMessage | null {
  const { result, subscription } = membersOf(params) ?? {}
  if (result === undefined || subscription === undefined) return null
  return { kind: 'notice', subscription, result }
}

/** The node's own error, as it wrote it. */
function errorOf(text: string): RpcError {
  try {
    const { code, message } = JSON.parse(text) as { code?: unknown; message?: unknown }
    if (typeof code === 'number' && typeof message === 'string') return { code, message, text }
  } catch {
    // No JSON, or null: it did fail, and that is all there is to say.
  }
  return { code: -32603, message: 'Internal error' }
}
