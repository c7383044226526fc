// An index from keys to filters, fast for the many keys without any.
// A bitmap over a key's first bytes finds most absent keys without building a string for the map.
import { keyOf } from '../../chain/solana/keys.ts'
import type { KeyText } from './filter-set.ts'

const bitmapBits = 1 << 20
const bitmapMask = bitmapBits - 1

export class KeyIndex<E> {
  readonly #entries = new Map<KeyText, E[]>()
  /** Allocated with the first key: most indices of a replaying stream stay empty. */
  #bitmap: Uint32Array | null = null
  /** Keys per bit: a bit is cleared with its last key. */
  readonly #counts = new Map<number, number>()

  get isEmpty(): boolean {
    return this.#entries.size === 0
  }

  add(key: KeyText, entry: E): void {
    const entries = this.#entries.get(key)
    if (entries !== undefined) {
      entries.push(entry)
      return
    }
    this.#entries.set(key, [entry])
    const bit = bitOf(key.charCodeAt(0), key.charCodeAt(1), key.charCodeAt(2))
    this.#counts.set(bit, (this.#counts.get(bit) ?? 0) + 1)
    this.#bitmap ??= new Uint32Array(bitmapBits / 32)
    this.#bitmap[bit >>> 5]! |= 1 << (bit & 31)
  }

  remove(key: KeyText, entry: E): void {
    const entries = this.#entries.get(key)
    const at = entries?.indexOf(entry) ?? -1
    if (entries === undefined || at === -1) return
    entries.splice(at, 1)
    if (entries.length > 0) return
    this.#entries.delete(key)
    const bit = bitOf(key.charCodeAt(0), key.charCodeAt(1), key.charCodeAt(2))
    const left = this.#counts.get(bit)! - 1
    if (left > 0) this.#counts.set(bit, left)
    else {
      this.#counts.delete(bit)
      this.#bitmap![bit >>> 5]! &= ~(1 << (bit & 31))
    }
  }

  /** The entries of this key; undefined without any. */
  find(key: Uint8Array): readonly E[] | undefined {
    if (this.#bitmap === null) return undefined
    const bit = bitOf(key[0]!, key[1]!, key[2]!)
    if ((this.#bitmap[bit >>> 5]! & (1 << (bit & 31))) === 0) return undefined
    return this.#entries.get(keyOf(key))
  }
}

function bitOf(first: number, second: number, third: number): number {
  return ((first << 16) | (second << 8) | third) & bitmapMask
}
