// The writes of a slot that wait until it reaches a commitment: of each account the last one, and
// those before it that a subscription to every write takes.
//
//   account A:  write 1 <- write 3 <- write 4 (last)      write 2 was of interest to nobody
//
// A write is named by how many of its account follow it in the bank, which is the same at every
// gateway of the set, also at one that has not seen the start of the slot.
import { decodeTransactionInfo } from '../../chain/solana/geyser-decode.ts'
import { keyOf } from '../../chain/solana/keys.ts'
import { readTokenAccount } from '../../chain/solana/token-account.ts'
import type { AccountUpdate, TransactionUpdate } from '../../chain/solana/updates.ts'

export interface Write {
  readonly update: AccountUpdate
  /** Number of the write among those of its account that were seen. */
  readonly number: number
  /** Whether it stays when another one follows. */
  readonly isKept: boolean
  /** The kept one before it. */
  readonly previous: Write | null
}

/** A write, and how many of its account follow it. */
export interface NotedWrite {
  readonly update: AccountUpdate
  readonly following: number
}

export class SlotWrites {
  /** The last write by account, in the order of these. */
  readonly #last = new Map<string, Write>()
  /** Who had a token account before the first transaction that touched it; null for nobody. */
  readonly #holders = new Map<string, { readonly index: number; readonly wallet: string | null }>()

  has(key: string): boolean {
    return this.#last.has(key)
  }

  /** The accounts in the order of their last writes. */
  keys(): Iterable<string> {
    return this.#last.keys()
  }

  add(key: string, update: AccountUpdate, isKept: boolean): void {
    const before = this.#last.get(key)
    const previous = before?.isKept === false ? before.previous : (before ?? null)
    // Removed first: notifications are in the order of the last writes.
    this.#last.delete(key)
    this.#last.set(key, { update, number: (before?.number ?? 0) + 1, isKept, previous })
  }

  /** The writes of an account, oldest first. */
  of(key: string): NotedWrite[] {
    const last = this.#last.get(key)
    const found: NotedWrite[] = []
    for (let one = last ?? null; one !== null; one = one.previous)
      found.push({ update: one.update, following: last!.number - one.number })
    return found.reverse()
  }

  /** Remembers who had the token accounts that the transaction touched. */
  addHolders({ info, index, keys }: TransactionUpdate): void {
    const { preTokenBalances, postTokenBalances } = decodeTransactionInfo(info).meta
    const owners = new Map<number, string | null>()
    for (const { accountIndex } of postTokenBalances) owners.set(accountIndex, null)
    for (const { accountIndex, owner } of preTokenBalances) owners.set(accountIndex, owner)
    for (const [at, wallet] of owners) {
      const key = keys[at]
      if (key === undefined) continue
      const known = this.#holders.get(keyOf(key))
      if (known === undefined || index < known.index)
        this.#holders.set(keyOf(key), { index, wallet })
    }
  }

  /** In base58; null where it is unknown, or nobody had it. */
  holderOf(key: string): string | null {
    return this.#holders.get(key)?.wallet ?? null
  }

  /** Adds what another one has read of the same slot, up to the same update. */
  merge(other: SlotWrites): void {
    for (const [key, last] of other.#last) {
      const own = this.#last.get(key)
      this.#last.set(key, own === undefined ? last : merged(own, last))
    }
    for (const [key, holder] of other.#holders) this.#holders.set(key, holder)
  }
}

function merged(own: Write, other: Write): Write {
  const byFollowing = new Map<number, Write>()
  for (const last of [other, own])
    for (let one: Write | null = last; one !== null; one = one.previous)
      byFollowing.set(last.number - one.number, one)
  const count = Math.max(own.number, other.number)
  let previous: Write | null = null
  for (const following of [...byFollowing.keys()].sort((a, b) => b - a))
    previous = { ...byFollowing.get(following)!, number: count - following, previous }
  return { ...previous!, isKept: own.isKept || other.isKept }
}

/** Who owns the token account; null when it is none. */
export function walletOf({ owner, data }: AccountUpdate): Uint8Array | null {
  return readTokenAccount(owner, data)?.owner ?? null
}
