// Seeded random numbers for the generator: a fast stream and Zipf samples.
// Not cryptographic: the same seed produces the same chain on every machine.

/** Small fast counter generator (sfc32): 128 bits of state, four words of seed. */
export class Random {
  #a = 0
  #b = 0
  #c = 0
  #counter = 1

  /** Starts a stream that is a function of these words alone. */
  seed(a: number, b: number, c: number): void {
    this.#a = a | 0
    this.#b = b | 0
    this.#c = c | 0
    this.#counter = 1
    // Twelve rounds diffuse seeds that differ in one bit over the whole state.
    for (let round = 0; round < 12; round++) this.word()
  }

  /** 32 random bits, unsigned. */
  word(): number {
    const sum = (this.#a + this.#b + this.#counter) | 0
    this.#counter = (this.#counter + 1) | 0
    this.#a = this.#b ^ (this.#b >>> 9)
    this.#b = (this.#c + (this.#c << 3)) | 0
    this.#c = ((this.#c << 21) | (this.#c >>> 11)) + sum
    this.#c |= 0
    return sum >>> 0
  }

  /** A fraction in [0, 1). */
  fraction(): number {
    return this.word() / 0x1_0000_0000
  }

  /** A whole number in [0, bound). */
  below(bound: number): number {
    return Math.floor(this.fraction() * bound)
  }

  chance(probability: number): boolean {
    return this.fraction() < probability
  }

  /** Exponentially distributed with the given mean. */
  exponential(mean: number): number {
    return -Math.log(1 - this.fraction()) * mean
  }

  fill(bytes: Uint8Array, at: number, length: number): void {
    const end = at + length
    let offset = at
    while (offset < end) {
      let word = this.word()
      for (let byte = 0; byte < 4 && offset < end; byte++) {
        bytes[offset++] = word
        word >>>= 8
      }
    }
  }
}

/** Samples ranks 0..size-1 with weight 1 / (rank + 1)^exponent in constant time (alias method). */
export class Zipf {
  readonly #share: Float64Array
  readonly #alias: Uint32Array

  constructor(size: number, exponent: number) {
    this.#share = new Float64Array(size)
    this.#alias = new Uint32Array(size)
    let total = 0
    for (let rank = 0; rank < size; rank++) total += (rank + 1) ** -exponent
    const small: number[] = []
    const large: number[] = []
    for (let rank = 0; rank < size; rank++) {
      const share = ((rank + 1) ** -exponent / total) * size
      this.#share[rank] = share
      ;(share < 1 ? small : large).push(rank)
    }
    while (small.length > 0 && large.length > 0) {
      const low = small.pop()!
      const high = large[large.length - 1]!
      this.#alias[low] = high
      this.#share[high] = this.#share[high]! + this.#share[low]! - 1
      if (this.#share[high] < 1) small.push(large.pop()!)
    }
    // Columns left over by rounding keep probability 1.
    for (const rank of [...small, ...large]) this.#share[rank] = 1
  }

  draw(random: Random): number {
    const column = random.below(this.#share.length)
    return random.fraction() < this.#share[column]! ? column : this.#alias[column]!
  }
}

/**
 * Writes `length` bytes that depend on the four words alone: addresses, hashes and keys of the
 * generated chain, the same every time.
 */
export function writeDigest(
  bytes: Uint8Array,
  { at, length }: { readonly at: number; readonly length: number },
  a: number,
  b: number,
  c: number,
  d: number,
): void {
  let state = mix(mix(mix(mix(a) ^ b) ^ c) ^ d)
  const end = at + length
  for (let offset = at; offset < end; offset += 4) {
    state = (state + 0x9e37_79b9) | 0
    let word = mix(state)
    for (let index = offset; index < offset + 4 && index < end; index++) {
      bytes[index] = word
      word >>>= 8
    }
  }
}

/** Mixes all bits of a word (the finalizer of MurmurHash3). */
export function mix(word: number): number {
  let value = word | 0
  value = Math.imul(value ^ (value >>> 16), 0x85eb_ca6b)
  value = Math.imul(value ^ (value >>> 13), 0xc2b2_ae35)
  return value ^ (value >>> 16)
}
