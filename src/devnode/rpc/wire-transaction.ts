// A transaction as a caller wrote it: text to checked bytes. Thread: any (pure).
// Nothing gets past here that the strict decoder does not take, so no broken bytes reach the VM.
import type { RpcError } from '../../jsonrpc/build.ts'
import { base58TextMax, decodeBase58 } from '../../solana/base58.ts'
import {
  type DecodeProblem,
  TransactionLayout,
  transactionBytesMax,
} from '../../solana/transaction.ts'
import { invalidParams } from './errors.ts'

const base64TextMax = 1644
const typeName = 'solana_transaction::versioned::VersionedTransaction'
const layout = new TransactionLayout()

export interface WireTransaction {
  readonly bytes: Uint8Array
  readonly signature: Uint8Array
  /** Static keys. */
  readonly keys: readonly Uint8Array[]
  /** All keys, with those that lookup tables will give. */
  readonly keyCount: number
}

export function wireTransactionOf(
  text: string,
  encoding: 'base58' | 'base64',
): WireTransaction | RpcError {
  const textMax = encoding === 'base58' ? base58TextMax : base64TextMax
  if (text.length > textMax)
    return invalidParams(
      `${encoding} encoded ${typeName} too large: ${text.length} bytes ` +
        `(max: encoded/raw ${textMax}/${transactionBytesMax})`,
    )
  const bytes = encoding === 'base58' ? decodeBase58(text) : decodeBase64(text)
  if (bytes === null) return invalidParams(`invalid ${encoding} encoding`)
  if (bytes.length > transactionBytesMax)
    return invalidParams(
      `decoded ${typeName} too large: ${bytes.length} bytes (max: ${transactionBytesMax} bytes)`,
    )
  const problem = layout.decode(bytes)
  if (problem !== 'ok') return problemError(problem, bytes)
  const { keysAt, signaturesAt } = layout
  return {
    bytes,
    signature: bytes.subarray(signaturesAt, signaturesAt + 64),
    keys: Array.from({ length: layout.keyCount }, (_, index) =>
      bytes.subarray(keysAt + index * 32, keysAt + index * 32 + 32),
    ),
    keyCount: layout.keyCount + layout.loadedWritable + layout.loadedReadonly,
  }
}

function problemError(problem: DecodeProblem, bytes: Uint8Array): RpcError {
  switch (problem) {
    case 'truncated':
      return undeserialized('io error: unexpected end of file')
    case 'trailing-bytes':
      return undeserialized('Slice had bytes remaining after deserialization')
    case 'bad-length':
    case 'too-large':
    case 'config':
      return undeserialized('invalid value: a length that is not in its shortest form')
    case 'unsupported-version':
      return undeserialized(
        `invalid value: integer \`${versionOf(bytes)}\`, ` +
          'expected a valid transaction message version',
      )
    default:
      return invalidParams(
        'invalid transaction: Transaction failed to sanitize accounts offsets correctly',
      )
  }
}

/** The version byte leads the message, or (version 1) the whole transaction. */
function versionOf(bytes: Uint8Array): number {
  const first = bytes[0] ?? 0
  if (first >= 0x80) return first & 0x7f
  return (bytes[1 + first * 64] ?? 0) & 0x7f
}

function undeserialized(reason: string): RpcError {
  return invalidParams(`failed to deserialize ${typeName}: ${reason}`)
}

/** Strict: padded, no other characters; null for anything else. */
export function decodeBase64(text: string): Buffer | null {
  const bytes = Buffer.from(text, 'base64')
  return bytes.toString('base64') === text ? bytes : null
}
