// A cuckoo filter of account keys (16-bit fingerprints), as clients send it.
// No false negatives; a few false positives.
//
//   data: bucket 0 [fp fp fp fp] bucket 1 [fp fp fp fp] …   u16 little-endian, 0 = free
//   hash(key) = SipHash-2-4(k0 = seed, k1 = seed rotated by 32) over u64 32, then the 32 bytes
//   fp = (hash >> 32) & 0xffff, never 0;  buckets: hash & mask, and that xor hash(fp) & mask
import { SipHash } from './sip-hash.ts'

export const fingerprintsPerBucket = 4
export const fingerprintBits = 16
const keyInput = Buffer.alloc(40)
keyInput.writeUInt32LE(32, 0)
const fingerprintInput = Buffer.alloc(2)

export class Cuckoo {
  readonly #fingerprints: Uint16Array
  readonly #mask: number
  readonly #sip: SipHash

  /** `data` is a power of two of whole buckets. */
  constructor(data: Uint8Array, seed: { low: number; high: number }) {
    const copy = Uint8Array.from(data)
    this.#fingerprints = new Uint16Array(copy.buffer)
    this.#mask = Math.max(1, this.#fingerprints.length / fingerprintsPerBucket) - 1
    this.#sip = new SipHash(seed, { low: seed.high, high: seed.low })
  }

  has(key: Uint8Array): boolean {
    const sip = this.#sip
    keyInput.set(key, 8)
    sip.update(keyInput, 40)
    const first = sip.low & this.#mask
    const fingerprint = sip.high & 0xffff || 1
    if (this.#bucketHas(first, fingerprint)) return true
    fingerprintInput.writeUInt16LE(fingerprint, 0)
    sip.update(fingerprintInput, 2)
    return this.#bucketHas(first ^ (sip.low & this.#mask), fingerprint)
  }

  #bucketHas(bucket: number, fingerprint: number): boolean {
    const at = bucket * fingerprintsPerBucket
    const all = this.#fingerprints
    return (
      all[at] === fingerprint ||
      all[at + 1] === fingerprint ||
      all[at + 2] === fingerprint ||
      all[at + 3] === fingerprint
    )
  }
}
