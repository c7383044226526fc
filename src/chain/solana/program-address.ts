// Derives program addresses: keys that no private key can have.
import { createHash } from 'node:crypto'
import { assert } from '../../base/errors.ts'

/** The prime of the field, and the constant of the curve Ed25519. */
const p = 2n ** 255n - 19n
const d = 37095705934669439343138083508754565189542113879843219016388785533085940283555n

/** The address of a program for these seeds, and the bump that moves it off the curve. */
export function findProgramAddress(
  seeds: readonly Uint8Array[],
  program: Uint8Array,
): { readonly address: Uint8Array; readonly bump: number } {
  for (let bump = 255; bump >= 0; bump--) {
    const hash = createHash('sha256')
    for (const seed of seeds) hash.update(seed)
    hash.update(Uint8Array.of(bump)).update(program).update('ProgramDerivedAddress')
    const address = hash.digest()
    if (!isOnCurve(address)) return { address, bump }
  }
  assert(false, 'half of all hashes are off the curve')
}

/** Whether the bytes are a point of Ed25519: the y coordinate, and the sign of x. */
export function isOnCurve(key: Uint8Array): boolean {
  let y = 0n
  for (let at = 31; at >= 0; at--) y = (y << 8n) | BigInt(at === 31 ? key[at]! & 0x7f : key[at]!)
  const y2 = (y * y) % p
  // x² = (y² - 1) / (d y² + 1); a quotient is a square exactly when the product is.
  const product = ((y2 - 1n + p) * ((d * y2 + 1n) % p)) % p
  return product === 0n || power(product, (p - 1n) / 2n) === 1n
}

function power(base: bigint, exponent: bigint): bigint {
  let result = 1n
  for (let bits = exponent, factor = base; bits > 0n; bits >>= 1n) {
    if ((bits & 1n) === 1n) result = (result * factor) % p
    factor = (factor * factor) % p
  }
  return result
}
