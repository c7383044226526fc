// RPC methods on blocks, blockhashes and the history; reads transactions that callers send.
import { type Commitment, commitmentNames } from '../../base/commitment.ts'
import { jsonText } from '../../base/json-text.ts'
import { type Answer, encodedText, failure, type RpcError } from '../../base/jsonrpc/build.ts'
import {
  base58Problem,
  base58TextMax,
  decodeBase58,
  encodeBase58,
} from '../../chain/solana/base58.ts'
import { base64Problem, decodeBase64 } from '../../chain/solana/base64.ts'
import type { DecodeProblem } from '../../chain/solana/transaction.ts'
import {
  TransactionLayout,
  transactionBytesMax,
  transactionV1BytesMax,
} from '../../chain/solana/transaction.ts'
import type { SignatureStatus } from '../../chain/solana/updates.ts'
import type { Shapes } from '../../chain/solana/version.ts'
import type { HistoryReads } from '../../chain/solana-rpc/chain-reads.ts'
import { feeMethods, historyMethods } from '../../chain/solana-rpc/methods.ts'
import type { Answering } from '../../chain/solana-rpc/params.ts'
import {
  answering,
  historyViewOf,
  invalidParams,
  rpcFaults,
} from '../../chain/solana-rpc/params.ts'
import type { Ledger, LedgerBlock } from '../ledger/ledger.ts'
import type { RpcNode } from './rpc-node.ts'

const rangeMax = 500_000
const samplesMax = 720

export function blockMethods(node: RpcNode): Readonly<Record<string, Answering>> {
  const { ledger } = node
  return {
    ...recentMethods(node),
    ...feeMethods(node),
    getBlockTime: answering({ least: 1, most: 1 }, (params) => {
      const slot = params.exactU64(0)
      return () => {
        const found = blockAt(ledger, slot, 0)
        return 'code' in found ? failure(found) : encodedText(String(found.blockTime))
      }
    }),
    getBlocks: answering({ least: 1, most: 3 }, (params) => {
      const from = params.u64(0)
      // The end may be left out, so that the config comes second.
      const isConfigSecond = typeof params.at(1) === 'object' && params.at(1) !== null
      const end = params.untagged('RpcBlocksConfigWrapper', () =>
        isConfigSecond ? null : params.optionalU64(1),
      )
      const config = params.config(isConfigSecond ? 1 : 2, 'RpcContextConfig')
      const { commitment, slot } = historyViewOf(config, ledger)
      const to = Math.min(end ?? from + rangeMax, slot)
      if (to - from > rangeMax) params.fail(`Slot range too large; max ${rangeMax}`)
      return () => slotsAnswer(ledger, { from, to, limit: rangeMax + 1 }, commitment)
    }),
    getBlocksWithLimit: answering({ least: 2, most: 3 }, (params) => {
      const from = params.u64(0)
      const limit = params.u64(1, 'usize')
      const { commitment, slot } = historyViewOf(params.config(2, 'RpcContextConfig'), ledger)
      if (limit > rangeMax) params.fail(`Limit too large; max ${rangeMax}`)
      return () => slotsAnswer(ledger, { from, to: slot, limit }, commitment)
    }),
    getFirstAvailableBlock: answering(
      { least: 0, most: 0 },
      () => () => encodedText(String(ledger.firstAvailableSlot)),
    ),
    minimumLedgerSlot: answering(
      { least: 0, most: 0 },
      () => () => encodedText(String(ledger.firstAvailableSlot)),
    ),
  }
}

function recentMethods(node: RpcNode): Readonly<Record<string, Answering>> {
  const { ledger } = node
  return {
    getRecentPerformanceSamples: answering({ least: 0, most: 1 }, (params) => {
      const limit = params.optionalU64(0, 'usize') ?? samplesMax
      if (limit > samplesMax) params.fail(`Invalid limit; max ${samplesMax}`)
      return () => encodedText(samplesText(ledger, limit))
    }),
  }
}

function blockAt(
  ledger: Ledger,
  slot: number | bigint,
  commitment: Commitment,
): LedgerBlock | RpcError {
  if (typeof slot === 'bigint' || slot > ledger.slot(commitment))
    return rpcFaults.blockNotAvailable(slot)
  const first = ledger.firstAvailableSlot
  if (slot < first) return rpcFaults.blockCleanedUp(slot, first)
  return ledger.block(slot) ?? rpcFaults.slotSkipped(slot)
}

function slotsAnswer(
  ledger: Ledger,
  range: { readonly from: number; readonly to: number; readonly limit: number },
  commitment: Commitment,
): Answer {
  if (range.from > range.to || range.limit === 0) return encodedText('[]')
  return encodedText(`[${ledger.blockSlots(range, commitment).join(',')}]`)
}

function samplesText(ledger: Ledger, limit: number): string {
  const samples = ledger.performanceSamples(limit).map((sample) => ({
    numNonVoteTransactions: sample.numNonVoteTransactions,
    numSlots: sample.numSlots,
    numTransactions: sample.numTransactions,
    samplePeriodSecs: sample.samplePeriodSecs,
    slot: sample.slot,
  }))
  return jsonText(samples)
}

// RPC methods on the history: those of solana-rpc, and getSignaturesForAddress.

const signaturesMax = 1_000

export function transactionMethods(node: RpcNode): Readonly<Record<string, Answering>> {
  const { ledger, apiVersion, shapes } = node
  return {
    ...historyMethods({ apiVersion, shapes, ledger: historyOf(ledger) }),
    getSignaturesForAddress: signaturesForAddress(node),
  }
}

/** A ledger as the shared methods read it. */
function historyOf(ledger: Ledger): HistoryReads {
  return {
    slot: (commitment) => ledger.slot(commitment),
    stateSlot: (commitment) => ledger.stateSlot(commitment),
    signatureStatus: (signature) => ledger.signatureStatus(signature),
    landed(signature, commitment) {
      const found = ledger.transaction(signature)
      const reached = found === null ? null : ledger.blockCommitment(found.slot)
      return reached === null || reached < commitment ? null : found
    },
    landedBlock: (slot, commitment) => blockAt(ledger, slot, commitment),
  }
}

function signaturesForAddress({ ledger, shapes }: RpcNode): Answering {
  return answering({ least: 1, most: 2 }, (params) => {
    const address = params.key(0)
    const config = params.config(1, 'RpcSignaturesForAddressConfig')
    const { commitment } = historyViewOf(config, ledger)
    const before = config.text('before')
    const until = config.text('until')
    const limit = config.u64('limit', 'usize') ?? signaturesMax
    if (limit === 0 || limit > signaturesMax) params.fail(`Invalid limit; max ${signaturesMax}`)
    const options = {
      limit,
      commitment,
      shapes,
      before: before === null ? null : params.signatureOf(before),
      until: until === null ? null : params.signatureOf(until),
    }
    return () => {
      for (const signature of [options.before, options.until])
        if (signature !== null && !isReached(ledger.signatureStatus(signature), commitment))
          return failure(rpcFaults.transactionNotFound(encodeBase58(signature)))
      return encodedText(
        jsonText(
          ledger.signaturesForAddress(address, options).map((info) => ({
            blockTime: info.blockTime,
            confirmationStatus: commitmentNames[info.commitment],
            err: info.err,
            memo: info.memo,
            signature: encodeBase58(info.signature),
            slot: info.slot,
            transactionIndex: info.index,
          })),
        ),
      )
    }
  })
}

/** A validator refuses to page from a transaction that it does not have. */
function isReached(status: SignatureStatus | null, commitment: Commitment): boolean {
  return status !== null && status.commitment >= commitment
}

// A transaction as a caller wrote it: text to checked bytes.
// Nothing gets past here that the strict decoder does not take, so no broken bytes reach the VM.

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
