// A transaction as a caller wrote it: text to checked bytes.
// Nothing gets past here that the strict decoder does not take, so no broken bytes reach the VM.
import type { RpcError } from '../../base/jsonrpc/build.ts'
import { base58Problem, base58TextMax, decodeBase58 } from '../../chain/solana/base58.ts'
import { base64Problem, decodeBase64 } from '../../chain/solana/base64.ts'
import {
  type DecodeProblem,
  TransactionLayout,
  transactionBytesMax,
  transactionV1BytesMax,
} from '../../chain/solana/transaction.ts'
import type { Shapes } from '../../chain/solana/version.ts'
import { invalidParams } from '../../chain/solana-rpc/params.ts'

const base64TextMax = 1644
export const messageName = 'solana_message::versions::VersionedMessage'
const base64V1TextMax = 5464
/** Base64 of the first byte of version 1, 0x81. */
const base64V1Lead = 'gQ'
const offChainVersion = 127
const typeName = 'solana_transaction::versioned::VersionedTransaction'
/** The first byte of version 1. */
export const versionOne = 0x81
const layout = new TransactionLayout({ v1: true })

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
  shapes: Shapes,
): WireTransaction | RpcError {
  const bytes = bytesOfText(text, encoding, { name: typeName, shapes })
  if ('code' in bytes) return bytes
  // A validator that does not know version 1 reads its first bytes as a count of signatures.
  const isUnknown = !shapes.transactionV1 && bytes[0] === versionOne
  const problem = isUnknown ? 'truncated' : layout.decode(bytes)
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

/** The bytes of an encoded value of a validator's type `name`. */
export function bytesOfText(
  text: string,
  encoding: 'base58' | 'base64',
  { name, shapes }: { readonly name: string; readonly shapes: Shapes },
): Uint8Array | RpcError {
  const { textMax, bytesMax } =
    encoding === 'base58'
      ? { textMax: base58TextMax, bytesMax: transactionBytesMax }
      : base64Limits(text, shapes)
  if (text.length > textMax)
    return invalidParams(
      `${encoding} encoded ${name} too large: ${text.length} bytes ` +
        `(max: encoded/raw ${textMax}/${bytesMax})`,
    )
  const bytes = encoding === 'base58' ? decodeBase58(text) : decodeBase64(text)
  if (bytes === null) {
    const problem = encoding === 'base58' ? base58Problem(text) : base64Problem(text)
    return invalidParams(`invalid ${encoding} encoding: ${problem}`)
  }
  if (bytes.length > bytesMax)
    return invalidParams(
      `decoded ${name} too large: ${bytes.length} bytes (max: ${bytesMax} bytes)`,
    )
  return bytes
}

/** Why these bytes of a validator's type `name` cannot be read. */
export function problemError(problem: DecodeProblem, bytes: Uint8Array, name = typeName): RpcError {
  const undeserialized = (reason: string) =>
    invalidParams(`failed to deserialize ${name}: ${reason}`)
  switch (problem) {
    case 'truncated':
      return undeserialized('io error: failed to fill whole buffer')
    case 'trailing-bytes':
      return undeserialized('Slice had bytes remaining after deserialization')
    case 'config':
      return undeserialized('Invalid value: invalid transaction config mask')
    case 'bad-length':
    case 'too-large':
      return undeserialized('invalid value: alias encoding, expected strict form encoding')
    case 'unsupported-version':
      return undeserialized(versionProblem(versionOf(bytes)))
    default:
      return invalidParams(
        name === messageName
          ? 'invalid transaction message: index out of bounds'
          : 'invalid transaction: Transaction failed to sanitize accounts offsets correctly',
      )
  }
}

/** The version byte leads the message, or (version 1) the whole transaction. */
function versionOf(bytes: Uint8Array): number {
  const first = bytes[0] ?? 0
  if (first >= 0x80) return first & 0x7f
  return (bytes[1 + first * 64] ?? 0) & 0x7f
}

function versionProblem(version: number): string {
  if (version === offChainVersion) return 'off-chain messages are not accepted'
  return `invalid value: integer \`${version}\`, expected a valid transaction message version`
}

/** How long a transaction or message may be: version 1 is longer than the others. */
function base64Limits(
  text: string,
  { transactionV1Long }: Shapes,
): { textMax: number; bytesMax: number } {
  return transactionV1Long && text.slice(0, 2) >= base64V1Lead
    ? { textMax: base64V1TextMax, bytesMax: transactionV1BytesMax }
    : { textMax: base64TextMax, bytesMax: transactionBytesMax }
}
