// Verifies the signatures of transactions. Thread: verify worker (workers/verify.ts), or any.
// Importing a key costs twice as much as verifying with it, so keys are cached: a chain has few
// busy senders. The cache evicts its oldest keys.
import { createPublicKey, type KeyObject, verify } from 'node:crypto'
import { keyOf } from './base58.ts'
import { TransactionLayout } from './transaction.ts'

const keysMax = 4_096

export class Verifier {
  readonly #keys = new Map<string, KeyObject>()
  readonly #layout = new TransactionLayout({ v1: true })

  /** True when the bytes are a transaction and every signature verifies with its key. */
  verify(bytes: Uint8Array): boolean {
    const layout = this.#layout
    if (layout.decode(bytes) !== 'ok') return false
    const message = bytes.subarray(layout.messageAt, layout.messageEnd)
    for (let index = 0; index < layout.signatureCount; index++) {
      const keyAt = layout.keysAt + index * 32
      const signatureAt = layout.signaturesAt + index * 64
      const key = this.#keyOf(bytes.subarray(keyAt, keyAt + 32))
      if (
        key === null ||
        !verify(null, message, key, bytes.subarray(signatureAt, signatureAt + 64))
      )
        return false
    }
    return true
  }

  #keyOf(bytes: Uint8Array): KeyObject | null {
    const name = keyOf(bytes)
    const known = this.#keys.get(name)
    if (known !== undefined) return known
    const x = Buffer.from(bytes).toString('base64url')
    let key: KeyObject
    try {
      key = createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x }, format: 'jwk' })
    } catch {
      return null
    }
    this.#keys.set(name, key)
    if (this.#keys.size > keysMax) this.#keys.delete(this.#keys.keys().next().value!)
    return key
  }
}
