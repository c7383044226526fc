// A Map that knows which entry was not read longest.
// The order is a linked list beside the Map. Deleting and setting a Map's key at each read, the
// usual way, costs by the size of the Map: V8 keeps deleted entries in their hash chain, and at the
// front where the oldest is looked for, until it rebuilds the table.

interface Node<K, V> {
  readonly key: K
  value: V
  older: Node<K, V> | null
  newer: Node<K, V> | null
}

export class LruMap<K, V> {
  readonly #nodes = new Map<K, Node<K, V>>()
  #oldest: Node<K, V> | null = null
  #newest: Node<K, V> | null = null

  get size(): number {
    return this.#nodes.size
  }

  /** A read: the entry becomes the newest. */
  get(key: K): V | undefined {
    const node = this.#nodes.get(key)
    if (node === undefined) return undefined
    if (node !== this.#newest) {
      this.#unlink(node)
      this.#append(node)
    }
    return node.value
  }

  /** The value, without a read. */
  peek(key: K): V | undefined {
    return this.#nodes.get(key)?.value
  }

  /** The entry becomes the newest. */
  set(key: K, value: V): void {
    let node = this.#nodes.get(key)
    if (node === undefined) {
      node = { key, value, older: null, newer: null }
      this.#nodes.set(key, node)
    } else {
      node.value = value
      this.#unlink(node)
    }
    this.#append(node)
  }

  /** Removes the entry that was not read longest; undefined when there is none. */
  evict(): V | undefined {
    const node = this.#oldest
    if (node === null) return undefined
    this.#unlink(node)
    this.#nodes.delete(node.key)
    return node.value
  }

  clear(): void {
    this.#nodes.clear()
    this.#oldest = this.#newest = null
  }

  #append(node: Node<K, V>): void {
    node.older = this.#newest
    node.newer = null
    if (this.#newest === null) this.#oldest = node
    else this.#newest.newer = node
    this.#newest = node
  }

  #unlink({ older, newer }: Node<K, V>): void {
    if (older === null) this.#oldest = newer
    else older.newer = newer
    if (newer === null) this.#newest = older
    else newer.older = older
  }
}
