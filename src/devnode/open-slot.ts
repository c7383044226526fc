// Groups the transactions of the open slot into entries, and ends the slot. Thread: main of the
// devnode. Transactions of one entry must not conflict, as validators run them in parallel; one
// that does begins the next entry.
import type { EntryContent } from '../chain/solana/geyser-content.ts'
import { keyOf } from '../chain/solana/keys.ts'
import { EntryChain } from './entries.ts'

/** Ticks that end every slot, as on the real chain. */
const ticksPerSlot = 64
const entryTransactionsMax = 64

export interface Locks {
  readonly signatures: readonly Uint8Array[]
  readonly keys: readonly Uint8Array[]
  isWritable(index: number): boolean
}

export class OpenSlot {
  readonly slot: number
  readonly entries: EntryContent[] = []
  readonly #chain: EntryChain
  readonly #onEntry: (entry: EntryContent) => void
  #signatures: (readonly Uint8Array[])[] = []
  readonly #written = new Set<string>()
  readonly #read = new Set<string>()

  constructor(slot: number, parentHash: Uint8Array, onEntry: (entry: EntryContent) => void) {
    this.slot = slot
    this.#chain = new EntryChain(parentHash)
    this.#onEntry = onEntry
  }

  add({ signatures, keys, isWritable }: Locks): void {
    const names = keys.map(keyOf)
    const isConflict = names.some(
      (key, index) => this.#written.has(key) || (isWritable(index) && this.#read.has(key)),
    )
    if (isConflict || this.#signatures.length >= entryTransactionsMax) this.#record()
    this.#signatures.push(signatures)
    names.forEach((key, index) => {
      if (isWritable(index)) this.#written.add(key)
      else this.#read.add(key)
    })
  }

  /** Records the last entry and the ticks; returns the block's hash. */
  end(): Uint8Array {
    this.#record()
    for (let tick = 0; tick < ticksPerSlot; tick++) this.#emit(this.#chain.tick())
    return this.#chain.hash
  }

  #record(): void {
    if (this.#signatures.length === 0) return
    this.#emit(this.#chain.record(this.#signatures))
    this.#signatures = []
    this.#written.clear()
    this.#read.clear()
  }

  #emit(entry: EntryContent): void {
    this.entries.push(entry)
    this.#onEntry(entry)
  }
}
