// The genesis hash of a set of nodes: which chain it is.
// Configured (`upstreams.<set>.genesis`), or that of most nodes once each was asked, the first
// configured ones where none has a majority. It changes only when all reachable nodes have one
// other hash, and one of them had the old one before: their chain began anew. A node of another
// cluster never was on this chain, and stays out also while it is the only one reachable.

/** What is known of a node. */
export interface GenesisReport {
  /** Null when it has not reported one. */
  readonly genesis: string | null
  readonly isReachable: boolean
  /** Its first probe has ended, or it is never probed. */
  readonly wasProbed: boolean
}

export class SetGenesis<N extends GenesisReport> {
  readonly #pinned: string
  readonly #members = new WeakSet<N>()
  #isSettled = false
  #hash: string | null
  /** How often the chain of the set began anew. */
  restarts = 0

  /** `pinned` is '' when the nodes decide. */
  constructor(pinned: string) {
    this.#pinned = pinned
    this.#hash = pinned === '' ? null : pinned
  }

  /** Null while no node has reported one. */
  get hash(): string | null {
    return this.#hash
  }

  isForeign({ genesis }: N): boolean {
    return this.#hash !== null && genesis !== null && genesis !== this.#hash
  }

  /** The reports of the nodes have changed. */
  update(nodes: readonly N[]): void {
    if (this.#pinned === '') this.#decide(nodes)
    for (const node of nodes)
      if (this.#isSettled && node.genesis !== null && node.genesis === this.#hash)
        this.#members.add(node)
  }

  #decide(nodes: readonly N[]): void {
    if (!this.#isSettled) {
      this.#hash = mostReported(nodes)
      this.#isSettled = this.#hash !== null && nodes.every(({ wasProbed }) => wasProbed)
      return
    }
    const reachable = nodes.filter(({ genesis, isReachable }) => isReachable && genesis !== null)
    const next = reachable[0]?.genesis ?? null
    if (next === null || next === this.#hash) return
    if (reachable.some(({ genesis }) => genesis !== next)) return
    if (!reachable.some((node) => this.#members.has(node))) return
    this.#hash = next
    this.restarts++
  }
}

/** The first of several that are equally frequent. */
function mostReported(nodes: readonly GenesisReport[]): string | null {
  const counts = new Map<string, number>()
  for (const { genesis } of nodes)
    if (genesis !== null) counts.set(genesis, (counts.get(genesis) ?? 0) + 1)
  const most = Math.max(...counts.values())
  return [...counts].find(([, count]) => count === most)?.[0] ?? null
}
