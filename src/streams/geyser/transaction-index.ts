// An index of transaction filters that finds the candidates for a transaction.
// A filter is under its most selective key: its signature, else one key that it requires, else
// each key that it includes, else in the list that every transaction scans.
import type { TransactionUpdate } from '../../chain/solana/updates.ts'
import type { TransactionFilter } from './filter-set.ts'
import { KeyIndex } from './key-index.ts'
import type { Entry } from './subscriber-group.ts'

type TransactionEntry = Entry<TransactionFilter>

export class TransactionIndex {
  readonly #bySignature = new KeyIndex<TransactionEntry>()
  readonly #byMention = new KeyIndex<TransactionEntry>()
  /** Filters that count owners of token balances as mentioned. */
  readonly #byOwner = new KeyIndex<TransactionEntry>()
  readonly #any = new Set<TransactionEntry>()
  readonly #all = new Set<TransactionEntry>()

  get isEmpty(): boolean {
    return this.#all.size === 0
  }

  add(entry: TransactionEntry): void {
    this.#all.add(entry)
    this.#each(entry, (index, key) => index.add(key, entry))
  }

  remove(entry: TransactionEntry): void {
    if (!this.#all.delete(entry)) return
    this.#any.delete(entry)
    this.#each(entry, (index, key) => index.remove(key, entry))
  }

  /** Calls `take` for each candidate, with duplicates. */
  candidates(update: TransactionUpdate, take: (entry: TransactionEntry) => void): void {
    if (!this.#bySignature.isEmpty) this.#bySignature.find(update.signature)?.forEach(take)
    if (!this.#byMention.isEmpty)
      for (const key of update.keys) this.#byMention.find(key)?.forEach(take)
    if (!this.#byOwner.isEmpty)
      // Owners whose balance changed are among them.
      for (const key of update.tokenOwners) this.#byOwner.find(key)?.forEach(take)
    this.#any.forEach(take)
  }

  #each(
    entry: TransactionEntry,
    run: (index: KeyIndex<TransactionEntry>, key: string) => void,
  ): void {
    const { signature, required, include, cuckoo, tokenOwners } = entry.filter
    if (signature !== null) {
      run(this.#bySignature, signature)
      return
    }
    const keys = required.length > 0 ? [required[0]!] : cuckoo === null ? include : []
    let isAny = true
    for (const key of keys) {
      isAny = false
      run(this.#byMention, key)
      if (tokenOwners !== 'none') run(this.#byOwner, key)
    }
    if (isAny && this.#all.has(entry)) this.#any.add(entry)
  }
}
