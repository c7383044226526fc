// Builds the hash chain of entries, as Solana's proof of history does.
// Verifiable with the rules of the real chain; only the number of hashes between entries is
// small, since the embedded chain does not have to prove that time passed.
//
//   entry with transactions: hash = sha256(previous | merkle root of all signatures)
//   tick:                    hash = sha256(previous)
import { hash } from 'node:crypto'
import type { EntryContent } from '../chain/solana/geyser-content.ts'

export class EntryChain {
  #hash: Uint8Array
  #index = 0
  #transactions = 0

  /** Continues from the last hash of the parent block. */
  constructor(parentHash: Uint8Array) {
    this.#hash = parentHash
  }

  get hash(): Uint8Array {
    return this.#hash
  }

  /** `signatures`: all signatures of each transaction, in order. */
  record(signatures: readonly (readonly Uint8Array[])[]): EntryContent {
    this.#hash = sha256(this.#hash, merkleRoot(signatures.flat()))
    return this.#next(signatures.length)
  }

  tick(): EntryContent {
    this.#hash = sha256(this.#hash)
    return this.#next(0)
  }

  #next(executedTransactionCount: number): EntryContent {
    const startingTransactionIndex = this.#transactions
    this.#transactions += executedTransactionCount
    const index = this.#index++
    return {
      index,
      numHashes: 1,
      hash: this.#hash,
      executedTransactionCount,
      startingTransactionIndex,
    }
  }
}

const leafPrefix = Uint8Array.of(0)
const nodePrefix = Uint8Array.of(1)

/** Merkle root over the leaves; an odd node at the end of a layer is paired with itself. */
export function merkleRoot(leaves: readonly Uint8Array[]): Uint8Array {
  let level = leaves.map((leaf) => sha256(leafPrefix, leaf))
  if (level.length === 0) return new Uint8Array(32)
  while (level.length > 1) {
    const above: Uint8Array[] = []
    for (let at = 0; at < level.length; at += 2)
      above.push(sha256(nodePrefix, level[at]!, level[at + 1] ?? level[at]!))
    level = above
  }
  return level[0]!
}

function sha256(...parts: readonly Uint8Array[]): Uint8Array {
  return hash('sha256', parts.length === 1 ? parts[0]! : Buffer.concat(parts), 'buffer')
}
