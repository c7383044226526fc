// Computes what a transaction costs its block, in compute units (`costUnits`), as agave's cost
// model does for a transaction that landed.
import type { TransactionLayout } from '../chain/solana/transaction.ts'
import type { Fee } from './fee.ts'

const unitsPerSignature = 720n
const unitsPerWriteLock = 300n
/** Of ed25519, secp256k1, secp256r1. */
const unitsPerPrecompileSignature = [2_400n, 6_690n, 4_800n] as const
const instructionBytesPerUnit = 4
const pageBytes = 32 * 1024
const unitsPerPage = 8n

/** `units`: those it consumed. `loadedBytes`: of the accounts it loaded. */
export function costUnitsOf(
  layout: TransactionLayout,
  fee: Fee,
  ran: { readonly units: bigint; readonly loadedBytes: number },
): bigint {
  const { keyCount, loadedWritable, readonlySigned, readonlyUnsigned } = layout
  // Requested locks count, also those that the runtime demotes.
  const writeLocks = keyCount + loadedWritable - readonlySigned - readonlyUnsigned
  let signatures = BigInt(layout.requiredSignatures) * unitsPerSignature
  fee.precompileSignatures.forEach((count, kind) => {
    signatures += BigInt(count) * unitsPerPrecompileSignature[kind]!
  })
  return (
    signatures +
    BigInt(writeLocks) * unitsPerWriteLock +
    BigInt(Math.floor(fee.instructionBytes / instructionBytesPerUnit)) +
    ran.units +
    BigInt(Math.ceil(ran.loadedBytes / pageBytes)) * unitsPerPage
  )
}
