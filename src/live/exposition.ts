// Reads Prometheus text as far as the page needs it: sums by name and label, and histograms.
// Thread: browser; no DOM.

export class Exposition {
  readonly #series = new Map<string, [labels: string, value: number][]>()

  constructor(text: string) {
    for (const line of text.split('\n')) {
      const parts = /^sluice_(\w+)(?:\{(.*)\})? (\S+)/.exec(line)
      if (parts === null) continue
      const [, name = '', labels = '', value] = parts
      const known = this.#series.get(name) ?? []
      known.push([labels, Number(value)])
      this.#series.set(name, known)
    }
  }

  has(name: string): boolean {
    return this.#series.has(name)
  }

  /** The sum of all series of that name whose labels contain `label`. */
  sum(name: string, label = ''): number {
    let total = 0
    for (const [labels, value] of this.#series.get(name) ?? [])
      if (labels.includes(label)) total += value
    return total
  }

  count(name: string): number {
    return this.#series.get(name)?.length ?? 0
  }

  /**
   * The quantile of what was observed since `before`, from the difference of two histograms: the
   * upper bound of its bucket, in milliseconds. NaN when nothing was observed.
   */
  quantileMs(name: string, part: number, before: Exposition): number {
    const old = new Map(before.#series.get(`${name}_bucket`))
    const buckets = (this.#series.get(`${name}_bucket`) ?? []).map(([labels, value]) => ({
      bound: Number(/le="([^"]+)"/.exec(labels)?.[1]?.replace('+Inf', 'Infinity')),
      seen: value - (old.get(labels) ?? 0),
    }))
    const all = buckets.at(-1)?.seen ?? 0
    const found = buckets.find(({ seen }) => all > 0 && seen >= all * part)
    return (found?.bound ?? Number.NaN) * 1000
  }
}
