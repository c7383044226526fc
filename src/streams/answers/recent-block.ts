// One confirmed block of the stream: its meta, signatures, errors and transactions.
// The bytes are copies in memory of the block's own: an update is a view of a batch, most of which
// are account writes that would be kept with it.
//
//   table: | index + 1 | 0 | index + 1 | …   open addressing, by a hash of the signature
import { randomBytes } from 'node:crypto'
import type { BlockMetaUpdate } from '../../chain/solana/updates.ts'

const signatureBytes = 64
const nothing = new Uint8Array(0)
/** Estimates for the objects of a block, and for an error. */
const blockBytes = 1_024
const errorBytes = 128
/** Keeps a hash a small positive integer, which V8 stores without a heap object. */
const hashMask = 0xff_ffff
/** Unknown outside, so that nobody chooses signatures that fill one run of a table. */
const seed = randomBytes(4).readInt32LE()

/** What a transaction leaves until its block is whole. */
export interface Landing {
  readonly index: number
  readonly signature: Uint8Array
  readonly err: Uint8Array | null
  readonly info: Uint8Array
}

/** For `find`: of the first bytes, which an Ed25519 signature has evenly distributed. */
export function signatureHash(signature: Uint8Array): number {
  const [a = 0, b = 0, c = 0, d = 0] = signature
  const word = Math.imul(a | (b << 8) | (c << 16) | (d << 24), 0x9e3779b1) ^ seed
  return (Math.imul(word, 0x85ebca6b) >>> 8) & hashMask
}

export class RecentBlock {
  readonly meta: BlockMetaUpdate
  isFinalized = false
  readonly #signatures: Buffer
  readonly #table: Uint32Array
  readonly #errors = new Map<number, Uint8Array>()
  /** The ends of the transactions in `#infos`, which is null once they were evicted. */
  readonly #ends: Uint32Array
  #infos: Buffer | null

  constructor(meta: BlockMetaUpdate, landings: readonly Landing[]) {
    const sorted = [...landings].sort((one, other) => one.index - other.index)
    this.meta = { ...meta, body: nothing, rewards: new Uint8Array(meta.rewards) }
    this.#signatures = Buffer.allocUnsafeSlow(sorted.length * signatureBytes)
    this.#table = new Uint32Array(2 ** Math.ceil(Math.log2(2 * sorted.length + 1)))
    this.#ends = new Uint32Array(sorted.length)
    this.#infos = Buffer.allocUnsafeSlow(sorted.reduce((sum, { info }) => sum + info.length, 0))
    let end = 0
    for (const [at, { signature, err, info }] of sorted.entries()) {
      this.#signatures.set(signature, at * signatureBytes)
      this.#infos.set(info, end)
      end += info.length
      this.#ends[at] = end
      if (err !== null) this.#errors.set(at, new Uint8Array(err))
      this.#insert(at, signatureHash(signature))
    }
  }

  /** Transactions in it. */
  get length(): number {
    return this.#ends.length
  }

  /** Memory of its transactions; 0 once they were evicted. */
  get contentBytes(): number {
    return this.#infos?.length ?? 0
  }

  /** Memory of everything else, about. */
  get indexBytes(): number {
    const { rewards } = this.meta
    const errors = this.#errors.size * errorBytes
    const tables = this.#signatures.length + this.#table.byteLength + this.#ends.byteLength
    return blockBytes + rewards.length + errors + tables
  }

  dropContent(): void {
    this.#infos = null
  }

  /** The position of a transaction; -1 when it is not in this block. */
  find(signature: Uint8Array, hash: number): number {
    const mask = this.#table.length - 1
    for (let at = hash & mask; ; at = (at + 1) & mask) {
      const found = this.#table[at]! - 1
      if (found === -1 || this.#isAt(found, signature)) return found
    }
  }

  signature(at: number): Uint8Array {
    return this.#signatures.subarray(at * signatureBytes, (at + 1) * signatureBytes)
  }

  /** Null for success, in bincode. */
  error(at: number): Uint8Array | null {
    return this.#errors.get(at) ?? null
  }

  /** A SubscribeUpdateTransactionInfo; null once the transactions were evicted. */
  info(at: number): Uint8Array | null {
    return this.#infos?.subarray(at === 0 ? 0 : this.#ends[at - 1], this.#ends[at]) ?? null
  }

  #isAt(at: number, signature: Uint8Array): boolean {
    const start = at * signatureBytes
    return (
      this.#signatures.compare(signature, 0, signatureBytes, start, start + signatureBytes) === 0
    )
  }

  #insert(index: number, hash: number): void {
    const mask = this.#table.length - 1
    let at = hash & mask
    while (this.#table[at] !== 0) at = (at + 1) & mask
    this.#table[at] = index + 1
  }
}
