// The leader's signature on shreds: one Ed25519 check for the 64 shreds of a set.
// Thread: shred worker, shred feed worker. Results are kept by signature and root, in a bound.
import { createPrivateKey, createPublicKey, type KeyObject, sign, verify } from 'node:crypto'
import { signatureBytes } from './shred.ts'
import { rootOf } from './shred-merkle.ts'

/** Sets whose verdict is remembered; at 80 sets a second a minute of them. */
const verdictsMax = 5000

export class LeaderSignatures {
  readonly #leaders: KeyObject[]
  readonly #verdicts = new Map<string, boolean>()
  /** Ed25519 checks made; a test counts them. */
  checks = 0

  /** The 32-byte keys of those who may lead. The one that signed last is tried first. */
  constructor(leaders: readonly Uint8Array[]) {
    this.#leaders = leaders.map(publicKeyOf)
  }

  /** True when a leader signed the root that this well-formed shred's proof leads to. */
  isSigned(shred: Uint8Array): boolean {
    const root = rootOf(shred)
    const signature = shred.subarray(0, signatureBytes)
    const key = root.toString('latin1') + Buffer.from(signature).toString('latin1')
    const known = this.#verdicts.get(key)
    if (known !== undefined) return known
    const verdict = this.#verify(root, signature)
    if (this.#verdicts.size >= verdictsMax) this.#verdicts.clear()
    this.#verdicts.set(key, verdict)
    return verdict
  }

  #verify(root: Uint8Array, signature: Uint8Array): boolean {
    for (const [place, leader] of this.#leaders.entries()) {
      this.checks += 1
      if (!verify(null, root, leader, signature)) continue
      this.#leaders.splice(place, 1)
      this.#leaders.unshift(leader)
      return true
    }
    return false
  }
}

/** Signs with the 32-byte seed of an Ed25519 key pair. */
export function signerOf(seed: Uint8Array): (root: Uint8Array) => Uint8Array {
  const key = createPrivateKey({
    key: Buffer.concat([pkcs8Prefix, seed]),
    format: 'der',
    type: 'pkcs8',
  })
  return (root) => sign(null, root, key)
}

/** The public key of such a seed. */
export function publicKeyOfSeed(seed: Uint8Array): Uint8Array {
  const key = createPrivateKey({
    key: Buffer.concat([pkcs8Prefix, seed]),
    format: 'der',
    type: 'pkcs8',
  })
  const jwk = createPublicKey(key).export({ format: 'jwk' })
  return Buffer.from(jwk.x!, 'base64url')
}

/** RFC 8410: what stands before the seed in a PKCS #8 Ed25519 key. */
const pkcs8Prefix = Buffer.from('302e020100300506032b657004220420', 'hex')

function publicKeyOf(key: Uint8Array): KeyObject {
  const x = Buffer.from(key).toString('base64url')
  return createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x }, format: 'jwk' })
}
