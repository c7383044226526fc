// A list of keys of a filter, which may change from a slot on.
// Items of earlier slots, however late they come, are matched by the keys before the change, so
// that nothing of one slot is matched half by old and half by new keys.
// Memory: each key once, and of each change its keys and slot for another `settledSlots` slots.
// Whoever changes a list bounds both (geyser/filter-compile.ts, pubsub/key-changes.ts).

/** A 32-byte key or a signature, as `keyOf` of solana/base58.ts returns it. */
export type KeyText = string

/** An item of a slot so far before the newest one is matched by the newest keys. */
export const settledSlots = 150

export interface KeyDelta {
  readonly add: ReadonlySet<KeyText>
  readonly remove: ReadonlySet<KeyText>
}

/** Whether a key was in the list before some slots, and the slots at which that turned over. */
interface History {
  wasIn: boolean
  readonly turns: number[]
}

export class KeyList implements Iterable<KeyText> {
  /** The keys of every slot that may still come: a removed one stays until it is settled. */
  readonly #keys: Set<KeyText>
  readonly #changed = new Map<KeyText, History>()
  readonly #changes: { readonly slot: number; readonly keys: readonly KeyText[] }[] = []
  /** Keys after the last change. */
  size: number
  /** Keys of changes that are not settled. */
  changedKeys = 0
  hasChanged = false

  /** Takes the set over. */
  constructor(keys: Set<KeyText>) {
    this.#keys = keys
    this.size = keys.size
  }

  /** False for a list that never had a key. One that has lost all of them matches nothing. */
  get isCondition(): boolean {
    return this.#keys.size > 0 || this.hasChanged
  }

  /** Whether the key is in the list for items of that slot. */
  has(key: KeyText, slot: number): boolean {
    if (!this.#keys.has(key)) return false
    if (this.changedKeys === 0) return true
    const history = this.#changed.get(key)
    return history === undefined || isIn(history, slot)
  }

  /** The keys of all slots that may still come. */
  [Symbol.iterator](): IterableIterator<KeyText> {
    return this.#keys.values()
  }

  /** Its size if it was changed like this. */
  sizeAfter({ add, remove }: KeyDelta): number {
    let size = this.size
    for (const key of add) if (!this.#isIn(key)) size++
    for (const key of remove) if (!add.has(key) && this.#isIn(key)) size--
    return size
  }

  /** Changes the keys from a slot on; returns those that an index does not have yet. */
  change({ add, remove }: KeyDelta, slot: number): KeyText[] {
    this.hasChanged = true
    const fresh: KeyText[] = []
    const keys: KeyText[] = []
    for (const key of remove)
      if (!add.has(key) && this.#isIn(key)) {
        keys.push(key)
        this.#turn(key, true, slot)
      }
    for (const key of add)
      if (!this.#isIn(key)) {
        keys.push(key)
        if (!this.#keys.has(key)) fresh.push(key)
        this.#turn(key, false, slot)
      }
    if (keys.length > 0) this.#changes.push({ slot, keys })
    this.changedKeys += keys.length
    return fresh
  }

  /** Forgets changes whose earlier slots are over; returns the keys that no slot has any more. */
  settle(newestSlot: number): KeyText[] {
    const gone: KeyText[] = []
    for (;;) {
      const change = this.#changes[0]
      if (change === undefined || change.slot + settledSlots > newestSlot) return gone
      this.#changes.shift()
      this.changedKeys -= change.keys.length
      for (const key of change.keys) if (this.#settleKey(key, change.slot)) gone.push(key)
    }
  }

  #isIn(key: KeyText): boolean {
    return this.has(key, Number.POSITIVE_INFINITY)
  }

  #turn(key: KeyText, wasIn: boolean, slot: number): void {
    const history = this.#changed.get(key) ?? { wasIn, turns: [] }
    this.#changed.set(key, history)
    // Twice at one slot is not at all.
    if (history.turns.at(-1) === slot) history.turns.pop()
    else history.turns.push(slot)
    this.#keys.add(key)
    this.size += wasIn ? -1 : 1
  }

  /** True when no slot has the key any more. */
  #settleKey(key: KeyText, slot: number): boolean {
    const history = this.#changed.get(key)
    if (history === undefined) return false
    while (history.turns.length > 0 && history.turns[0]! <= slot) {
      history.turns.shift()
      history.wasIn = !history.wasIn
    }
    if (history.turns.length > 0) return false
    this.#changed.delete(key)
    return !history.wasIn && this.#keys.delete(key)
  }
}

function isIn({ wasIn, turns }: History, slot: number): boolean {
  let is = wasIn
  for (const turn of turns) if (turn <= slot) is = !is
  return is
}
