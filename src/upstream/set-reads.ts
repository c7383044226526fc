// Reads from the nodes of a set what their geyser stream does not carry.
// Nothing here rejects: a read that no node answered returns nothing.
import { Commitment, commitmentNamed } from '../base/commitment.ts'
import { decodeKey, encodeBase58 } from '../chain/solana/base58.ts'
import type { AccountState } from '../chain/solana/geyser-decode.ts'
import type { TransactionError } from '../chain/solana/transaction-error.ts'
import { blockhashBlocks, type SignatureStatus } from '../chain/solana/updates.ts'
import { bodyOf } from './call-body.ts'
import { readText } from './http-client/http-request.ts'
import type { UpstreamNode } from './node-pool/upstream-node.ts'
import { isAnswer, readNodes, type UpstreamSet } from './node-pool/upstream-set.ts'

/** A longer answer is not read: its account is too large to keep. */
const accountTextMax = 262_144

/** Reads the first `length` bytes of accounts, in the order of their keys. */
export async function readAccounts(
  set: UpstreamSet,
  keys: readonly Uint8Array[],
  length: number,
): Promise<({ readonly owner: Uint8Array; readonly data: Uint8Array } | null)[]> {
  const method = 'getMultipleAccounts'
  const dataSlice = { offset: 0, length }
  const config = { commitment: 'processed', encoding: 'base64', dataSlice }
  const paramsText = JSON.stringify([keys.map((key) => encodeBase58(key)), config])
  const answer = await readNodes(set, method, bodyOf({ method, paramsText }))
  return valuesOf(answer).map((value) => {
    const { owner, data } = (value ?? {}) as { owner?: unknown; data?: unknown }
    const key = typeof owner === 'string' ? decodeKey(owner) : null
    const text: unknown = Array.isArray(data) ? data[0] : null
    return key === null || typeof text !== 'string'
      ? null
      : { owner: key, data: Buffer.from(text, 'base64') }
  })
}

/** Reads an account at confirmed, at `minSlot` or later; null when no node has it by then. */
export async function readAccount(
  set: UpstreamSet,
  pubkey: Uint8Array,
  minSlot: number,
): Promise<{ readonly slot: number; readonly account: AccountState | null } | 'too large' | null> {
  const method = 'getAccountInfo'
  const config = { commitment: 'confirmed', encoding: 'base64', minContextSlot: minSlot }
  const paramsText = JSON.stringify([encodeBase58(pubkey), config])
  const { confirmed } = Commitment
  const node = set.pick(method, { minContextSlot: minSlot, commitment: confirmed })
  const body = bodyOf({ method, paramsText })
  const { timeoutMs } = set.section
  const response = await node?.call(body, { timeoutMs }).response
  if (response === undefined || !response.ok) return null
  const text = await readText(response, accountTextMax)
  return text === null ? 'too large' : accountIn(node!, text, pubkey)
}

/** Lamports and rent epoch are u64 and read from the text: JSON.parse rounds them. */
function accountIn(node: UpstreamNode, text: string, pubkey: Uint8Array) {
  try {
    const reply = JSON.parse(text)
    if (!isAnswer(node, reply)) return null
    const { context, value } = reply.result
    const slot = Number(context.slot)
    if (!Number.isSafeInteger(slot)) return null
    if (value === null) return { slot, account: null }
    const owner = decodeKey(value.owner)
    const [, lamports] = /"lamports":(\d+)/.exec(text)!
    const [, rentEpoch] = /"rentEpoch":(\d+)/.exec(text)!
    const data = new Uint8Array(Buffer.from(value.data[0], 'base64'))
    if (owner === null || data.length !== value.space) return null
    const executable = value.executable === true
    const account = { pubkey, lamports: BigInt(lamports!), owner, executable, data }
    return { slot, account: { ...account, rentEpoch: BigInt(rentEpoch!) } }
  } catch {
    return null
  }
}

/**
 * Null for a signature that the node does not know, among its recent ones unless `withHistory`;
 * `unavailable` when no node answered. `minSlot` is processed.
 */
export async function readSignatureStatus(
  set: UpstreamSet,
  signature: Uint8Array,
  minSlot: number,
  withHistory = false,
): Promise<Pick<SignatureStatus, 'slot' | 'err' | 'commitment'> | 'unavailable' | null> {
  const method = 'getSignatureStatuses'
  const config = withHistory ? ',{"searchTransactionHistory":true}' : ''
  const paramsText = `[["${encodeBase58(signature)}"]${config}]`
  // A node that lags the stream may not have it yet.
  const options = { minContextSlot: minSlot, commitment: Commitment.processed }
  const answer = await readNodes(set, method, bodyOf({ method, paramsText }), options)
  const [status] = valuesOf(answer)
  if (status === undefined) return 'unavailable'
  const { slot, err, confirmationStatus } = (status ?? {}) as Record<string, unknown>
  const commitment = commitmentNamed(confirmationStatus)
  if (typeof slot !== 'number' || commitment === null) return null
  // Reason for the cast: the error is sent as it came.
  return { slot, err: (err ?? null) as TransactionError | null, commitment }
}

/**
 * Whether a node of the set knows a blockhash that another source has at `slot`, finalized. Null
 * when none can say: it has not reached the slot, or the blockhash is too old for it.
 */
export async function knowsBlockhash(
  set: UpstreamSet,
  blockhash: string,
  slot: number,
): Promise<boolean | null> {
  const method = 'isBlockhashValid'
  const config = { commitment: 'processed', minContextSlot: slot }
  const paramsText = JSON.stringify([blockhash, config])
  const options = { minContextSlot: slot, commitment: Commitment.processed }
  const answer = await readNodes(set, method, bodyOf({ method, paramsText }), options)
  const { context, value } = (answer?.result ?? {}) as {
    context?: { slot?: unknown }
    value?: unknown
  }
  if (value === true) return true
  const isRecent = typeof context?.slot === 'number' && context.slot - slot < blockhashBlocks
  return value === false && isRecent ? false : null
}

function valuesOf(answer: { readonly result?: unknown } | null): readonly unknown[] {
  const { value } = (answer?.result ?? {}) as { value?: unknown }
  return Array.isArray(value) ? value : []
}
