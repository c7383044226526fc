// Reads the calls of a load: a method, a path, a query, or a file with one call per line.
// Thread: main.
import { existsSync, readFileSync } from 'node:fs'
import { accept, type Outcome, refuse } from '../base/errors.ts'
import type { LoadKind } from './load.ts'

const defaults: Readonly<Partial<Record<LoadKind, string>>> = {
  rpc: 'getSlot',
  metrics: '/v1/status',
  indexer: 'SELECT 1',
}

/** The calls that take turns, each in the form that the driver of the kind sends. */
export function parseCalls(kind: LoadKind, given: string | undefined): Outcome<readonly string[]> {
  const text = given ?? defaults[kind]
  if (text === undefined)
    return refuse('invalid', 'usage', `${kind} needs --call: a file with one call per line`)
  if (!/\.jsonl$/.test(text) && !existsSync(text)) return accept([callOf(kind, text)])
  if (!existsSync(text)) return refuse('not-found', 'no-file', `there is no file ${text}`)
  const lines = readFileSync(text, 'utf8')
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '')
  if (lines.length === 0) return refuse('invalid', 'no-calls', `${text} has no calls`)
  return accept(lines.map((line) => callOf(kind, line)))
}

/** A bare word is a JSON-RPC method. */
function callOf(kind: LoadKind, text: string): string {
  if ((kind === 'rpc' || kind === 'tpu') && /^\w+$/.test(text))
    return JSON.stringify({ jsonrpc: '2.0', id: 1, method: text })
  return text
}
