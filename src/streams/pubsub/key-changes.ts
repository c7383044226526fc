// The keys of a transaction subscription that were changed while it was open.
// As on gRPC: everything of a slot is matched by the keys of before the change or by those of after
// it, a list that loses its last key matches nothing, and one that was not sent takes no keys.
import { type KeyDelta, KeyList, settledSlots } from '../hub/key-list.ts'

/** By the names of the lists in params. */
export const changingLists = {
  accountInclude: 'include',
  accountExclude: 'exclude',
  accountRequired: 'required',
} as const
export type ListName = (typeof changingLists)[keyof typeof changingLists]
const names = Object.entries(changingLists)

/** The lists as they were when the subscription was made. */
interface InitialLists extends Readonly<Record<ListName, readonly string[]>> {
  readonly signature: string | null
}

/** Keys by which a subscription is found, and whose states it may be sent. */
export interface IndexedKeys {
  readonly indexed: Iterable<string>
  readonly included: Iterable<string>
}

export type KeysDelta = Readonly<Record<ListName, KeyDelta>>

export class ChangingKeys {
  readonly #lists: Readonly<Record<ListName, KeyList>>
  /** The list under whose keys the subscription is found; null when it is found by others. */
  readonly #indexed: KeyList | null
  #fromSlot = 0

  constructor({ signature, include, exclude, required }: InitialLists) {
    const listOf = (keys: readonly string[]) => new KeyList(new Set(keys))
    this.#lists = { include: listOf(include), exclude: listOf(exclude), required: listOf(required) }
    const conditions = [this.#lists.required, this.#lists.include].filter((one) => one.isCondition)
    this.#indexed = signature === null ? (conditions[0] ?? null) : null
  }

  /** The keys of all slots that may still come; null when others find it. */
  get indexed(): Iterable<string> | null {
    return this.#indexed
  }

  /** The keys of `include` of all slots that may still come. */
  get included(): Iterable<string> {
    return this.#lists.include
  }

  /** Whether `include` has the key for items of that slot. */
  includes(key: string, slot: number): boolean {
    return this.#lists.include.has(key, slot)
  }

  get isSettled(): boolean {
    return Object.values(this.#lists).every(({ changedKeys }) => changedKeys === 0)
  }

  /** Null when the change can be made; `most` is for each list. */
  problemWith(delta: KeysDelta, most: number, includeMax = most): string | null {
    for (const [name, list] of names) {
      const max = list === 'include' ? Math.min(most, includeMax) : most
      const [keys, change] = [this.#lists[list], delta[list]]
      const changed = change.add.size + change.remove.size
      if (changed === 0) continue
      if (list !== 'exclude' && !keys.isCondition)
        return `${name}: the subscription was made without this list, so it is no condition`
      if (keys.sizeAfter(change) > max) return `${name}: at most ${max} keys are allowed`
      if (keys.changedKeys + changed > max)
        return `${name}: at most ${max} keys are changed within ${settledSlots} slots`
    }
    return null
  }

  /** Changes the keys from a slot on; returns those that an index does not have yet. */
  change(delta: KeysDelta, slot: number): IndexedKeys {
    // A replay may be before the slot of an earlier change.
    this.#fromSlot = Math.max(this.#fromSlot, slot)
    return this.#each((keys, list) =>
      delta[list].add.size + delta[list].remove.size === 0
        ? []
        : keys.change(delta[list], this.#fromSlot),
    )
  }

  /** Forgets what was before changes of slots long past; returns keys that an index loses. */
  settle(newestSlot: number): IndexedKeys {
    return this.#each((keys) => keys.settle(newestSlot))
  }

  /** Whether the lists take a transaction of that slot with these keys. */
  takes(keys: ReadonlySet<string>, slot: number): boolean {
    const { include, exclude, required } = this.#lists
    const hasSome = (list: KeyList) => {
      for (const key of keys) if (list.has(key, slot)) return true
      return false
    }
    if (required.isCondition) {
      if (!hasSome(required)) return false
      for (const key of required) if (!keys.has(key) && required.has(key, slot)) return false
    }
    return !hasSome(exclude) && (!include.isCondition || hasSome(include))
  }

  #each(edit: (keys: KeyList, list: ListName) => string[]): IndexedKeys {
    let [indexed, included]: [string[], string[]] = [[], []]
    for (const [, list] of names) {
      const edited = edit(this.#lists[list], list)
      if (this.#lists[list] === this.#indexed) indexed = edited
      if (list === 'include') included = edited
    }
    return { indexed, included }
  }
}
