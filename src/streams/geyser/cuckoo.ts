// A cuckoo filter of account keys (16-bit fingerprints), as clients send it.
// No false negatives; a few false positives.
//
//   data: bucket 0 [fp fp fp fp] bucket 1 [fp fp fp fp] …   u16 little-endian, 0 = free
//   hash(key) = SipHash-2-4(k0 = seed, k1 = seed rotated by 32) over u64 32, then the 32 bytes
//   fp = (hash >> 32) & 0xffff, never 0;  buckets: hash & mask, and that xor hash(fp) & mask
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

// SipHash-2-4 on 32-bit halves, since JavaScript has no 64-bit integers that are fast.

interface Half64 {
  readonly low: number
  readonly high: number
}

// The four state words, low and high halves. One hash runs at a time.
const state = new Uint32Array(8)

export class SipHash {
  readonly #k0: Half64
  readonly #k1: Half64
  /** The result of the last `update`, as two signed halves. */
  low = 0
  high = 0

  constructor(k0: Half64, k1: Half64) {
    this.#k0 = k0
    this.#k1 = k1
  }

  /** Hashes the first `length` bytes of `input`. */
  update(input: Buffer, length: number): void {
    const { low: k0l, high: k0h } = this.#k0
    const { low: k1l, high: k1h } = this.#k1
    state[0] = k0l ^ 0x70736575
    state[1] = k0h ^ 0x736f6d65
    state[2] = k1l ^ 0x6e646f6d
    state[3] = k1h ^ 0x646f7261
    state[4] = k0l ^ 0x6e657261
    state[5] = k0h ^ 0x6c796765
    state[6] = k1l ^ 0x79746573
    state[7] = k1h ^ 0x74656462
    const whole = length & ~7
    for (let at = 0; at < whole; at += 8) absorb(input.readUInt32LE(at), input.readUInt32LE(at + 4))
    let low = 0
    let high = (length & 0xff) << 24
    for (let at = whole; at < length; at++) {
      const shift = (at & 7) * 8
      if (shift < 32) low |= input[at]! << shift
      else high |= input[at]! << (shift - 32)
    }
    absorb(low, high)
    state[4]! ^= 0xff
    for (let round = 0; round < 4; round++) mix()
    this.low = state[0]! ^ state[2]! ^ state[4]! ^ state[6]!
    this.high = state[1]! ^ state[3]! ^ state[5]! ^ state[7]!
  }
}

function absorb(low: number, high: number): void {
  state[6]! ^= low
  state[7]! ^= high
  mix()
  mix()
  state[0]! ^= low
  state[1]! ^= high
}

/** One round. `add` carries from the low half into the high one; `turn` rotates left and xors. */
function mix(): void {
  add(0, 2)
  turn(2, 13, 0)
  swap(0)
  add(4, 6)
  turn(6, 16, 4)
  add(0, 6)
  turn(6, 21, 0)
  add(4, 2)
  turn(2, 17, 4)
  swap(4)
}

function add(into: number, from: number): void {
  const low = state[into]! + state[from]!
  state[into + 1] = state[into + 1]! + state[from + 1]! + (low > 0xffffffff ? 1 : 0)
  state[into] = low
}

function turn(word: number, bits: number, by: number): void {
  const low = state[word]!
  const high = state[word + 1]!
  state[word] = ((low << bits) | (high >>> (32 - bits))) ^ state[by]!
  state[word + 1] = ((high << bits) | (low >>> (32 - bits))) ^ state[by + 1]!
}

/** Rotation by 32. */
function swap(word: number): void {
  const low = state[word]!
  state[word] = state[word + 1]!
  state[word + 1] = low
}
