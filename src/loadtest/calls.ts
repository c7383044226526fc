// Reads the calls of a load: a method, a path, a query, or a file with one call per line.
import { existsSync, readFileSync } from 'node:fs'
import { accept, type Outcome, refuse } from '../base/errors.ts'
import type { LoadKind } from './load.ts'

const defaults: Readonly<Partial<Record<LoadKind, string>>> = {
  rpc: 'getSlot',
  websocket: 'slotSubscribe',
  grpc: 'GetSlot',
  metrics: '/v1/status',
  indexer: 'SELECT 1',
}

/** The calls that take turns, each in the form that the driver of the kind sends. */
export function parseCalls(kind: LoadKind, given: string | undefined): Outcome<readonly string[]> {
  const text = given ?? defaults[kind]
  if (text === undefined)
    return refuse('invalid', 'usage', '--to tpu needs --call: a file with a transaction per line')
  const isFile = existsSync(text)
  if (!isFile && text.endsWith('.jsonl'))
    return refuse('not-found', 'no-file', `there is no file ${text}`)
  const lines = isFile ? readFileSync(text, 'utf8').split('\n') : [text]
  const calls: string[] = []
  for (const [index, line] of lines.entries()) {
    if (line.trim() === '') continue
    const call = callOf(kind, line.trim())
    if (call === null)
      return refuse('invalid', 'bad-call', `line ${index + 1} of --call is no call for ${kind}`)
    calls.push(call)
  }
  return calls.length > 0 ? accept(calls) : refuse('invalid', 'no-calls', `${text} has no calls`)
}

/** JSON is sent as it is, a bare word is a method; null for what the kind cannot send. */
function callOf(kind: LoadKind, text: string): string | null {
  if (text.startsWith('{') || text.startsWith('[')) return isJson(text) ? text : null
  if (kind === 'indexer') return text
  if (kind === 'metrics') return text.startsWith('/') && !/\s/.test(text) ? text : rpcCall(text)
  if (kind === 'grpc') return /^[\w./]+$/.test(text) ? text : null
  if (kind === 'tpu' && base64.test(text))
    return rpcText('sendTransaction', [text, { encoding: 'base64' }])
  return rpcCall(text)
}

/** Shorter ones are names of methods. */
const base64 = /^[A-Za-z0-9+/]{88,}={0,2}$/

function rpcCall(text: string): string | null {
  return /^\w+$/.test(text) ? rpcText(text) : null
}

function rpcText(method: string, params?: readonly unknown[]): string {
  return JSON.stringify({ jsonrpc: '2.0', id: 1, method, ...(params && { params }) })
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}
