// Derives Ed25519 keys from a seed, and signs with them.
// For the embedded chain's own keys (faucet, identity, traffic) and the wallet of a landing test.
// No customer's key is ever in the server.
import { createHash, createPrivateKey, createPublicKey, type KeyObject, sign } from 'node:crypto'

/** PKCS #8 prefix of a 32-byte Ed25519 seed. */
const pkcs8 = Buffer.from('302e020100300506032b657004220420', 'hex')

export class Keypair {
  readonly publicKey: Uint8Array
  readonly #privateKey: KeyObject

  constructor(seed: Uint8Array) {
    this.#privateKey = createPrivateKey({
      key: Buffer.concat([pkcs8, seed]),
      format: 'der',
      type: 'pkcs8',
    })
    const { x } = createPublicKey(this.#privateKey).export({ format: 'jwk' })
    this.publicKey = Buffer.from(x!, 'base64url')
  }

  /** Derives the key of a name: the same seed and name give the same key. */
  static derive(seed: Uint8Array, name: string): Keypair {
    return new Keypair(createHash('sha256').update(seed).update(name).digest())
  }

  /** Seed and public key, as the files of Solana's tools contain them. */
  get secretKey(): Uint8Array {
    const { d } = this.#privateKey.export({ format: 'jwk' })
    return Buffer.concat([Buffer.from(d!, 'base64url'), this.publicKey])
  }

  sign(message: Uint8Array): Uint8Array {
    return sign(null, message, this.#privateKey)
  }
}
