// Computes a transaction's fee: 5,000 lamports per signature, plus its priority fee.
// Thread: any (pure).
import { isSameKey } from '../solana/keys.ts'
import { programs } from '../solana/programs.ts'
import type { TransactionLayout } from '../solana/transaction.ts'

export const lamportsPerSignature = 5_000n
const unitsMax = 1_400_000
const unitsPerInstruction = 200_000
const unitsPerBuiltin = 3_000
const microPerLamport = 1_000_000n

/** Builtin programs: their default compute limit is small unless more is requested. */
const builtins = [
  programs.system,
  programs.vote,
  programs.computeBudget,
  programs.loaderV1,
  programs.loaderV2,
  programs.upgradeableLoader,
  programs.secp256k1,
  programs.ed25519,
]
/** Programs whose instructions carry signatures of their own, counted in their first byte. */
const verifiers = [programs.ed25519, programs.secp256k1, programs.secp256r1]

export interface Fee {
  readonly lamports: bigint
  /** Compute unit price in micro-lamports. */
  readonly price: bigint
  readonly units: number
}

/** The fee of the transaction or message that `layout` found in `bytes`. */
export function feeOf(layout: TransactionLayout, bytes: Uint8Array): Fee {
  let price = 0n
  let limit: number | null = null
  let given = 0
  let signatures = layout.requiredSignatures
  for (let index = 0; index < layout.instructionCount; index++) {
    const at = layout.keysAt + layout.programIndex[index]! * 32
    const program = bytes.subarray(at, at + 32)
    const data = bytes.subarray(
      layout.dataAt[index]!,
      layout.dataAt[index]! + layout.dataLength[index]!,
    )
    const isOneOf = (those: readonly Uint8Array[]) => those.some((key) => isSameKey(key, program))
    given += isOneOf(builtins) ? unitsPerBuiltin : unitsPerInstruction
    if (isOneOf(verifiers)) signatures += data[0] ?? 0
    if (!isSameKey(program, programs.computeBudget)) continue
    const view = Buffer.from(data.buffer, data.byteOffset, data.length)
    if (data[0] === 2 && data.length >= 5) limit = view.readUInt32LE(1)
    if (data[0] === 3 && data.length >= 9) price = view.readBigUInt64LE(1)
  }
  const units = Math.min(unitsMax, limit ?? given)
  const bid = (price * BigInt(units) + microPerLamport - 1n) / microPerLamport
  return { lamports: BigInt(signatures) * lamportsPerSignature + bid, price, units }
}
