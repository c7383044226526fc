// Decodes a Solana transaction strictly, as offsets into its bytes.
// Allocates nothing: a TransactionLayout is made once and reused for each transaction, so its
// contents are valid until the next decode.
//
//   legacy, v0:  count signatures[64]… | [0x80] header[3] count keys[32]… blockhash[32]
//                count {program, count accounts, count data}…
//                [count {table[32], count writable, count readonly}…]
//   v1:          0x81 header[3] mask[4] blockhash[32] instructions addresses keys[32]… config…
//                {program, accounts, data length u16}… payloads… signatures[64]…
//
// Also refused: aliased lengths, trailing bytes, and what a validator's sanitize
// step refuses (indices out of range, signer counts that contradict each other).

export const transactionBytesMax = 1232
export const transactionV1BytesMax = 4096

export type DecodeProblem =
  | 'ok'
  | 'too-large'
  | 'truncated'
  | 'trailing-bytes'
  | 'bad-length'
  | 'unsupported-version'
  | 'signature-count'
  | 'header'
  | 'program-index'
  | 'account-index'
  | 'lookup-empty'
  | 'too-many-keys'
  | 'config'

const instructionsMax = 512
const lookupsMax = 64
const keysMax = 256

export class TransactionLayout {
  /** -1 for legacy, else 0 or 1. */
  version = -1
  signatureCount = 0
  signaturesAt = 0
  /** What the signatures sign: bytes messageAt to messageEnd. */
  messageAt = 0
  messageEnd = 0
  requiredSignatures = 0
  readonlySigned = 0
  readonlyUnsigned = 0
  /** Static keys; keys from lookup tables come after them. */
  keyCount = 0
  keysAt = 0
  blockhashAt = 0
  instructionCount = 0
  readonly programIndex = new Uint8Array(instructionsMax)
  readonly accountsAt = new Uint16Array(instructionsMax)
  readonly accountsCount = new Uint16Array(instructionsMax)
  readonly dataAt = new Uint16Array(instructionsMax)
  readonly dataLength = new Uint16Array(instructionsMax)
  lookupCount = 0
  readonly lookupTableAt = new Uint16Array(lookupsMax)
  readonly lookupWritableAt = new Uint16Array(lookupsMax)
  readonly lookupWritableCount = new Uint16Array(lookupsMax)
  readonly lookupReadonlyAt = new Uint16Array(lookupsMax)
  readonly lookupReadonlyCount = new Uint16Array(lookupsMax)
  loadedWritable = 0
  loadedReadonly = 0
  /** v1 only: offset of the config values, and which are present. */
  configMask = 0
  configAt = 0

  // The reader's offset in `#bytes`. A read past the end sets `#isShort` and yields 0.
  #bytes: Uint8Array = new Uint8Array(0)
  #at = 0
  #isShort = false
  #isAliased = false

  readonly #isV1Taken: boolean

  /** `v1`: whether transactions of version 1 are taken. */
  constructor({ v1 = false }: { readonly v1?: boolean } = {}) {
    this.#isV1Taken = v1
  }

  /** Fills this layout from the bytes; its contents are undefined unless the result is `ok`. */
  decode(bytes: Uint8Array): DecodeProblem {
    this.#bytes = bytes
    this.#at = 0
    this.#isShort = false
    this.#isAliased = false
    this.lookupCount = 0
    this.loadedWritable = 0
    this.loadedReadonly = 0
    this.configMask = 0
    const first = bytes[0]
    if (first === undefined) return 'truncated'
    if (first >= 0x80) {
      if (first !== 0x81 || !this.#isV1Taken) return 'unsupported-version'
      if (bytes.length > transactionV1BytesMax) return 'too-large'
      return this.#decodeV1()
    }
    if (bytes.length > transactionBytesMax) return 'too-large'
    return this.#decodeLegacyOrV0()
  }

  isSigner(index: number): boolean {
    return index < this.requiredSignatures
  }

  /** Whether the message declares the account writable, by its index over all keys. */
  isWritable(index: number): boolean {
    if (index < this.requiredSignatures)
      return index < this.requiredSignatures - this.readonlySigned
    if (index < this.keyCount) return index < this.keyCount - this.readonlyUnsigned
    return index < this.keyCount + this.loadedWritable
  }

  #decodeLegacyOrV0(): DecodeProblem {
    this.signatureCount = this.#compact()
    this.signaturesAt = this.#at
    this.#skip(this.signatureCount * 64)
    this.messageAt = this.#at
    this.version = -1
    const lead = this.#bytes[this.#at]
    if (lead !== undefined && lead >= 0x80) {
      if (lead !== 0x80) return this.#isShort ? 'truncated' : 'unsupported-version'
      this.version = 0
      this.#at++
    }
    this.#header()
    this.keyCount = this.#compact()
    this.keysAt = this.#at
    this.#skip(this.keyCount * 32)
    this.blockhashAt = this.#at
    this.#skip(32)
    const problem = this.#instructions()
    if (problem !== 'ok') return problem
    if (this.version === 0) {
      const lookups = this.#lookups()
      if (lookups !== 'ok') return lookups
    }
    this.messageEnd = this.#at
    return this.#finish()
  }

  #instructions(): DecodeProblem {
    this.instructionCount = this.#compact()
    if (this.instructionCount > instructionsMax) return this.#broken()
    for (let index = 0; index < this.instructionCount; index++) {
      this.programIndex[index] = this.#byte()
      this.accountsCount[index] = this.#span(this.accountsAt, index)
      this.dataLength[index] = this.#span(this.dataAt, index)
      if (this.#isShort) return this.#broken()
    }
    return this.#isShort || this.#isAliased ? this.#broken() : 'ok'
  }

  #lookups(): DecodeProblem {
    this.lookupCount = this.#compact()
    if (this.lookupCount > lookupsMax) return this.#broken()
    for (let index = 0; index < this.lookupCount; index++) {
      this.lookupTableAt[index] = this.#at
      this.#skip(32)
      const writable = this.#span(this.lookupWritableAt, index)
      const readonly = this.#span(this.lookupReadonlyAt, index)
      this.lookupWritableCount[index] = writable
      this.lookupReadonlyCount[index] = readonly
      if (this.#isShort) return this.#broken()
      if (writable + readonly === 0) return 'lookup-empty'
      this.loadedWritable += writable
      this.loadedReadonly += readonly
    }
    return this.#isShort || this.#isAliased ? this.#broken() : 'ok'
  }

  #decodeV1(): DecodeProblem {
    this.version = 1
    this.messageAt = 0
    this.#at = 1
    this.#header()
    const mask = this.#byte() | (this.#byte() << 8) | (this.#byte() << 16) | (this.#byte() << 24)
    this.configMask = mask
    // Bits 0 and 1 are the two halves of the priority fee; bits above 4 mean nothing yet.
    if ((mask & ~0b11111) !== 0 || (mask & 3) === 1 || (mask & 3) === 2) return 'config'
    this.blockhashAt = this.#at
    this.#skip(32)
    this.instructionCount = this.#byte()
    this.keyCount = this.#byte()
    if (this.instructionCount > 64 || this.keyCount > 64) return 'too-many-keys'
    this.keysAt = this.#at
    this.#skip(this.keyCount * 32)
    this.configAt = this.#at
    this.#skip(((mask & 3) === 3 ? 8 : 0) + 4 * (bit(mask, 2) + bit(mask, 3) + bit(mask, 4)))
    for (let index = 0; index < this.instructionCount; index++) {
      this.programIndex[index] = this.#byte()
      this.accountsCount[index] = this.#byte()
      this.dataLength[index] = this.#byte() | (this.#byte() << 8)
    }
    for (let index = 0; index < this.instructionCount; index++) {
      this.accountsAt[index] = this.#at
      this.#skip(this.accountsCount[index]!)
      this.dataAt[index] = this.#at
      this.#skip(this.dataLength[index]!)
    }
    this.messageEnd = this.#at
    this.signatureCount = this.requiredSignatures
    if (this.signatureCount > 12) return 'signature-count'
    this.signaturesAt = this.#at
    this.#skip(this.signatureCount * 64)
    return this.#finish()
  }

  #header(): void {
    this.requiredSignatures = this.#byte()
    this.readonlySigned = this.#byte()
    this.readonlyUnsigned = this.#byte()
  }

  #finish(): DecodeProblem {
    if (this.#isShort || this.#isAliased) return this.#broken()
    if (this.#at !== this.#bytes.length) return 'trailing-bytes'
    return this.#sanitize()
  }

  #sanitize(): DecodeProblem {
    if (this.requiredSignatures + this.readonlyUnsigned > this.keyCount) return 'header'
    if (this.readonlySigned >= this.requiredSignatures) return 'header'
    if (this.signatureCount !== this.requiredSignatures) return 'signature-count'
    const total = this.keyCount + this.loadedWritable + this.loadedReadonly
    if (total > keysMax) return 'too-many-keys'
    for (let index = 0; index < this.instructionCount; index++) {
      const program = this.programIndex[index]!
      if (program === 0 || program >= this.keyCount) return 'program-index'
      const end = this.accountsAt[index]! + this.accountsCount[index]!
      for (let at = this.accountsAt[index]!; at < end; at++)
        if (this.#bytes[at]! >= total) return 'account-index'
    }
    return 'ok'
  }

  #broken(): DecodeProblem {
    return this.#isAliased ? 'bad-length' : 'truncated'
  }

  #byte(): number {
    const value = this.#bytes[this.#at]
    if (value === undefined) {
      this.#isShort = true
      return 0
    }
    this.#at++
    return value
  }

  #skip(count: number): void {
    if (this.#at + count > this.#bytes.length) this.#isShort = true
    else this.#at += count
  }

  /** Reads counted bytes: stores their offset in `at[index]`, returns their length. */
  #span(at: Uint16Array, index: number): number {
    const length = this.#compact()
    at[index] = this.#at
    this.#skip(length)
    return length
  }

  /** compact-u16: 7 bits a byte, low first; a length has exactly one encoding. */
  #compact(): number {
    const first = this.#byte()
    if (first < 0x80) return first
    const second = this.#byte()
    if (second === 0 && !this.#isShort) this.#isAliased = true
    if (second < 0x80) return (first & 0x7f) | (second << 7)
    const third = this.#byte()
    if ((third === 0 || third > 3) && !this.#isShort) this.#isAliased = true
    return (first & 0x7f) | ((second & 0x7f) << 7) | ((third & 3) << 14)
  }
}

function bit(mask: number, index: number): number {
  return (mask >> index) & 1
}
