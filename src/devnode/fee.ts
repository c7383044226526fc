// Reads what a transaction requests of the chain (compute units, loaded bytes) and computes its
// fee: 5,000 lamports per signature, plus its priority fee.
import { isSameKey } from '../chain/solana/base58.ts'
import { bidOf, unitsGiven, unitsMax } from '../chain/solana/fee-rate.ts'
import type { TransactionConfigContent } from '../chain/solana/geyser-decode.ts'
import { programs } from '../chain/solana/programs.ts'
import type { TransactionLayout } from '../chain/solana/transaction.ts'
import { configOf } from '../chain/solana/transaction-config.ts'
import type { TransactionError } from '../chain/solana/transaction-error.ts'

export const lamportsPerSignature = 5_000n
const loadedBytesMax = 64 * 1024 * 1024
const heapBytesMin = 32 * 1024
const heapBytesMax = 256 * 1024

/** Programs whose instructions carry signatures of their own, counted in their first byte. */
const verifiers = [programs.ed25519, programs.secp256k1, programs.secp256r1] as const

export interface Fee {
  readonly lamports: bigint
  readonly units: number
  /** Most bytes that the accounts of the transaction may have together. */
  readonly loadedBytes: number
  /** Signatures inside instructions: of ed25519, secp256k1, secp256r1. */
  readonly precompileSignatures: readonly [number, number, number]
  readonly instructionBytes: number
  /** Why its budget instructions cannot be read: a validator refuses it before it looks further. */
  readonly malformed: TransactionError | null
  /** Why its limits are refused: it never runs and never pays. */
  readonly err: TransactionError | null
}

/** Requested limits: of ComputeBudget instructions. */
interface Requested {
  heap: { readonly index: number; readonly bytes: number } | null
  units: number | null
  price: bigint | null
  loadedBytes: number | null
}

/** The fee of the transaction or message that `layout` found in `bytes`. */
export function feeOf(layout: TransactionLayout, bytes: Uint8Array): Fee {
  const requested: Requested = { heap: null, units: null, price: null, loadedBytes: null }
  const precompileSignatures: [number, number, number] = [0, 0, 0]
  let malformed: TransactionError | null = null
  let given = 0
  let instructionBytes = 0
  for (let index = 0; index < layout.instructionCount; index++) {
    const at = layout.keysAt + layout.programIndex[index]! * 32
    const program = bytes.subarray(at, at + 32)
    const data = bytes.subarray(
      layout.dataAt[index]!,
      layout.dataAt[index]! + layout.dataLength[index]!,
    )
    instructionBytes += data.length
    given += unitsGiven(program)
    const verifier = verifiers.findIndex((key) => isSameKey(key, program))
    if (verifier >= 0) precompileSignatures[verifier]! += data[0] ?? 0
    if (isSameKey(program, programs.computeBudget)) malformed ??= read(requested, index, data)
  }
  const config = configOf(layout, bytes)
  const { bid, ...limits } =
    config === null ? limitsOf(requested, given, malformed) : limitsOfConfig(config)
  const signatures = precompileSignatures.reduce((sum, n) => sum + n, layout.requiredSignatures)
  const lamports = BigInt(signatures) * lamportsPerSignature + bid
  return { lamports, precompileSignatures, instructionBytes, ...limits }
}

type Limits = Pick<Fee, 'units' | 'loadedBytes' | 'malformed' | 'err'> & {
  /** The priority fee in lamports. */
  readonly bid: bigint
}

function limitsOf(
  { heap, units: requested, price: asked, loadedBytes }: Requested,
  given: number,
  malformed: TransactionError | null,
): Limits {
  const units = Math.min(unitsMax, requested ?? given)
  const price = malformed === null ? (asked ?? 0n) : 0n
  return {
    bid: bidOf(price, units),
    units,
    loadedBytes: Math.min(loadedBytesMax, loadedBytes ?? loadedBytesMax),
    malformed,
    err:
      heap !== null && !isHeapSize(heap.bytes)
        ? { InstructionError: [heap.index, 'InvalidInstructionData'] }
        : loadedBytes === 0
          ? 'InvalidLoadedAccountsDataSizeLimit'
          : null,
  }
}

/** Version 1 has its limits in its config, 0 where it gives none; it needs no instructions. */
function limitsOfConfig(config: TransactionConfigContent): Limits {
  const { priorityFee, computeUnitLimit, loadedAccountsDataSizeLimit, heapSize } = config
  const bid = priorityFee ?? 0n
  const units = Math.min(unitsMax, computeUnitLimit ?? 0)
  return {
    bid,
    units,
    loadedBytes: Math.min(loadedBytesMax, loadedAccountsDataSizeLimit ?? 0),
    malformed: heapSize === null || isHeapSize(heapSize) ? null : 'SanitizeFailure',
    err: null,
  }
}

/** Reads one ComputeBudget instruction. Each kind may be there once. */
function read(requested: Requested, index: number, data: Uint8Array): TransactionError | null {
  const view = Buffer.from(data.buffer, data.byteOffset, data.length)
  const tag = view[0] ?? 0
  if (tag < 1 || tag > 4 || view.length < (tag === 3 ? 9 : 5))
    return { InstructionError: [index, 'InvalidInstructionData'] }
  const field = (['heap', 'units', 'price', 'loadedBytes'] as const)[tag - 1]!
  if (requested[field] !== null) return { DuplicateInstruction: index }
  if (field === 'price') requested.price = view.readBigUInt64LE(1)
  else if (field === 'heap') requested.heap = { index, bytes: view.readUInt32LE(1) }
  else requested[field] = view.readUInt32LE(1)
  return null
}

function isHeapSize(bytes: number): boolean {
  return bytes >= heapBytesMin && bytes <= heapBytesMax && bytes % 1024 === 0
}
