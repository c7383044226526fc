// Asks a node by JSON-RPC for what the relay itself wants to know. Thread: main.
// Called by set-relay.ts for recovery.ts.
import { bufferAnswer } from '../buffered-answer.ts'
import { bodyOf } from '../call-body.ts'
import type { PubsubNode } from './node.ts'

const ANSWER_MS_MAX = 5_000
/** An account of 10 MiB in base64, with room to spare. */
const ANSWER_BYTES_MAX = 32 * 1024 * 1024

/** The text of the answer, whatever it says; null when there is none. Never rejects. */
export async function askNode(
  node: PubsubNode | null,
  method: string,
  params: string,
): Promise<string | null> {
  if (node === null) return null
  const body = bodyOf({ method, paramsText: params })
  const answer = await bufferAnswer(
    (listener) => node.call(body, { timeoutMs: ANSWER_MS_MAX }, listener),
    ANSWER_BYTES_MAX,
  )
  return answer.ok && answer.status === 200 ? answer.body.toString() : null
}
