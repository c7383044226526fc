// Reads Prometheus text: samples by name, summed over labels.

interface Sample {
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

/** Labels that a sample must have; a value that starts with `!` is one that it must not have. */
type Match = Readonly<Record<string, string>>

export class ExpositionText {
  readonly #samples = new Map<string, Sample[]>()

  constructor(text: string) {
    for (const line of text.split('\n')) {
      const [, name, labels = '', value] = /^(\w+)(?:\{(.*)\})? (\S+)/.exec(line) ?? []
      if (name === undefined) continue
      const pairs = [...labels.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)]
      const samples = this.#samples.get(name) ?? []
      this.#samples.set(name, samples)
      samples.push({
        labels: Object.fromEntries(pairs.map(([, key, word]) => [key!, word!])),
        value: Number(value),
      })
    }
  }

  /** The values of the samples that match; empty for an absent meter. */
  values(name: string, match: Match = {}): number[] {
    const found = (this.#samples.get(`sluice_${name}`) ?? []).filter(({ labels }) =>
      Object.entries(match).every(([key, word]) =>
        word.startsWith('!') ? labels[key] !== word.slice(1) : labels[key] === word,
      ),
    )
    return found.map(({ value }) => value)
  }

  /** Cumulative counts of a histogram by upper bound, ascending, summed over other labels. */
  buckets(name: string): ReadonlyMap<number, number> {
    const counts = new Map<number, number>()
    for (const { labels, value } of this.#samples.get(`sluice_${name}_bucket`) ?? []) {
      const bound = labels.le === '+Inf' ? Number.POSITIVE_INFINITY : Number(labels.le)
      counts.set(bound, (counts.get(bound) ?? 0) + value)
    }
    return new Map([...counts].sort(([a], [b]) => a - b))
  }

  sum(name: string, match: Match = {}): number {
    return this.values(name, match).reduce((sum, value) => sum + value, 0)
  }
}
