// Finds the transactions of a slot in its data shreds, as soon as a batch of entries is whole.
// Thread: observer. Lost shreds are not recovered: their batch is not shown, as a consumer without
// recovery would not see it.
//
//   data shreds: … | complete | a | b | c complete | …      a batch: a b c
//   batch: count u64 | entry … entry: hashes u64 | hash 32 | transactions u64 | transaction …
import { keyOf } from '../../chain/solana/base58.ts'
import { programs } from '../../chain/solana/programs.ts'
import {
  flagBits,
  flagsOf,
  indexOf,
  isCodeVariant,
  offsets,
  slotOf,
  slotShredsMax,
} from '../../chain/solana/shred.ts'
import {
  TransactionLayout,
  transactionBytesMax,
  transactionV1BytesMax,
} from '../../chain/solana/transaction.ts'

/** Slots whose shreds are kept; a slot has at most `slotShredsMax` payloads of 1 KiB. */
const slotsMax = 8
const countBytes = 8
const entryHeadBytes = 48
const signatureBytes = 64
const keyBytes = 32
const voteProgram = keyOf(programs.vote)

export interface ShredTransaction {
  readonly signature: Uint8Array
  readonly slot: number
}

interface OpenSlot {
  /** Payload of each data shred; empty once its batch was read. */
  readonly payloads: Map<number, Uint8Array>
  readonly complete: Set<number>
}

const read = new Uint8Array(0)

export class ShredTransactions {
  readonly #slots = new Map<number, OpenSlot>()
  readonly #accounts: ReadonlySet<string>
  readonly #layout = new TransactionLayout({ v1: true })

  /** `accounts`: keys of which a transaction must name one; empty for all. Votes are left out. */
  constructor(accounts: readonly Uint8Array[]) {
    this.#accounts = new Set(accounts.map(keyOf))
  }

  /** Takes a well-formed shred; returns the transactions that it makes readable. */
  add(shred: Uint8Array): ShredTransaction[] {
    if (isCodeVariant(shred[offsets.variant]!) !== false) return []
    const slot = slotOf(shred)
    const open = this.#slotOf(slot)
    const index = indexOf(shred)
    if (open === null || open.payloads.has(index)) return []
    const size = shred[offsets.size]! | (shred[offsets.size + 1]! << 8)
    open.payloads.set(index, Uint8Array.from(shred.subarray(offsets.dataPayload, size)))
    if ((flagsOf(shred) & flagBits.dataComplete) !== 0) open.complete.add(index)
    const batch = batchAround(open, index)
    return batch === null ? [] : this.#readBatch(batch, slot)
  }

  #slotOf(slot: number): OpenSlot | null {
    const known = this.#slots.get(slot)
    if (known !== undefined) return known
    if (this.#slots.size === slotsMax) {
      const oldest = Math.min(...this.#slots.keys())
      if (slot < oldest) return null
      this.#slots.delete(oldest)
    }
    const open: OpenSlot = { payloads: new Map(), complete: new Set() }
    this.#slots.set(slot, open)
    return open
  }

  #readBatch(batch: Buffer, slot: number): ShredTransaction[] {
    const found: ShredTransaction[] = []
    if (batch.length < countBytes) return found
    const entries = Number(batch.readBigUInt64LE(0))
    let at = countBytes
    for (let entry = 0; entry < entries && at + entryHeadBytes <= batch.length; entry++) {
      const count = Number(batch.readBigUInt64LE(at + entryHeadBytes - countBytes))
      at += entryHeadBytes
      for (let index = 0; index < count; index++) {
        const end = this.#endOfTransaction(batch, at)
        // The rest cannot be read without this one's length.
        if (end === null) return found
        const signature = this.#signatureOf(batch.subarray(at, end))
        if (signature !== null) found.push({ signature, slot })
        at = end
      }
    }
    return found
  }

  /** Decodes the transaction at `at`; null for bytes that are none. */
  #endOfTransaction(batch: Buffer, at: number): number | null {
    const isV1 = (batch[at] ?? 0) >= 0x80
    const bytesMax = isV1 ? transactionV1BytesMax : transactionBytesMax
    const problem = this.#layout.decode(batch.subarray(at, at + bytesMax))
    if (problem !== 'ok' && problem !== 'trailing-bytes') return null
    const { messageEnd, signaturesAt, signatureCount } = this.#layout
    return at + (isV1 ? signaturesAt + signatureCount * signatureBytes : messageEnd)
  }

  /** The first signature of the decoded transaction; null for votes and other accounts. */
  #signatureOf(bytes: Uint8Array): Uint8Array | null {
    const { keyCount, keysAt, signaturesAt, signatureCount, instructionCount } = this.#layout
    const key = (index: number) =>
      keyOf(bytes.subarray(keysAt + index * keyBytes, keysAt + (index + 1) * keyBytes))
    const isVote = instructionCount === 1 && key(this.#layout.programIndex[0]!) === voteProgram
    if (isVote || signatureCount === 0) return null
    const keys = Array.from({ length: this.#accounts.size === 0 ? 0 : keyCount }, (_, i) => key(i))
    if (this.#accounts.size > 0 && !keys.some((one) => this.#accounts.has(one))) return null
    return bytes.subarray(signaturesAt, signaturesAt + signatureBytes)
  }
}

/** The batch that the shred belongs to, and marks it as read; null while it is not whole. */
function batchAround({ payloads, complete }: OpenSlot, index: number): Buffer | null {
  let first = index
  while (first > 0 && !complete.has(first - 1)) {
    if (!payloads.has(first - 1)) return null
    first -= 1
  }
  const parts: Uint8Array[] = []
  for (let at = first; at < slotShredsMax; at++) {
    const payload = payloads.get(at)
    if (payload === undefined) return null
    parts.push(payload)
    if (!complete.has(at)) continue
    for (let done = first; done <= at; done++) payloads.set(done, read)
    return Buffer.concat(parts)
  }
  return null
}
