// What sendTransaction and getSignatureStatuses say to a node, and what its answers mean.
// Thread: main. Pure. Used by rpc-sender.ts and set-sender.ts.
import { accept, type Outcome, refuse } from '../base/errors.ts'
import { encodeBase58 } from '../solana/base58.ts'
import { bodyOf } from './call-body.ts'
import type { NodeSecrets } from './node-secrets.ts'
import type { Fate } from './ports.ts'

/** As many as getSignatureStatuses takes. */
const fatesMax = 256
/** A node that is behind; a door like ours whose rate is spent. */
const notNow: ReadonlySet<number> = new Set([-32005, -32429])

export interface RpcAnswer {
  readonly result?: unknown
  readonly error?: { readonly code?: number; readonly message?: string; readonly data?: unknown }
}

/** Preflight and retries are ours: the node only passes it on. */
export function sendBody({ buffer, byteOffset, length }: Uint8Array): string {
  const text = Buffer.from(buffer, byteOffset, length).toString('base64')
  const options = '{"encoding":"base64","skipPreflight":true,"maxRetries":0}'
  return bodyOf({ method: 'sendTransaction', paramsText: `["${text}",${options}]` })
}

/** The outcome of `TransactionSender.send`. */
export function sendWord({ error }: RpcAnswer, secrets: NodeSecrets): Outcome<null> {
  if (error === undefined || error === null) return accept(null)
  // Above the range of the chain's own errors stand the limits of providers.
  if (notNow.has(error.code ?? 0) || (error.code ?? 0) > -32000)
    return refuse('unavailable', 'upstream', 'the upstream cannot take it now')
  if (errOf(error.data) === 'AlreadyProcessed') return accept(null)
  const { message, data } = secrets.redactError({
    code: error.code ?? 0,
    message: String(error.message ?? 'no reason given'),
    data: error.data,
  })
  const err = errOf(data)
  return refuse('rejected', 'upstream', message, err === undefined ? {} : { data: { err } })
}

function errOf(data: unknown): unknown {
  return ((data ?? {}) as { err?: unknown }).err
}

/** Asks in as many calls as it takes; a call without an answer knows nothing. */
export async function askFates(
  signatures: readonly Uint8Array[],
  ask: (body: string) => Promise<RpcAnswer | null>,
): Promise<readonly (Fate | null)[]> {
  const found: (Fate | null)[] = []
  for (let at = 0; at < signatures.length; at += fatesMax) {
    const some = signatures.slice(at, at + fatesMax)
    const names = some.map((signature) => `"${encodeBase58(signature)}"`).join(',')
    const answer = await ask(bodyOf({ method: 'getSignatureStatuses', paramsText: `[[${names}]]` }))
    const { value } = (answer?.result ?? {}) as { value?: unknown }
    const list = Array.isArray(value) ? value : []
    for (const index of some.keys()) found.push(fateOf(list[index]))
  }
  return found
}

function fateOf(status: unknown): Fate | null {
  if (typeof status !== 'object' || status === null) return null
  const { slot, err } = status as { slot?: unknown; err?: unknown }
  return typeof slot === 'number' ? { slot, isSuccess: err === null || err === undefined } : null
}
