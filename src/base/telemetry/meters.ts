// Prometheus instruments, declared once per module and rendered without promtool lint findings.
// The only importer of prom-client. Names start `sluice_`; labels come from closed
// sets.
// Counters are plain numbers that are read at scrape: counting costs a hot path next to nothing.
import { Counter, Gauge, Histogram, Registry } from 'prom-client'
import {
  contentTypes,
  type ExpositionFormat,
  type Family,
  mergeFamilies,
  renderExposition,
  type Sample,
} from './exposition.ts'

export interface CounterChild {
  inc(by?: number): void
}
export interface GaugeChild {
  set(value: number): void
}
export interface HistogramChild {
  observe(value: number): void
}

type Labels = Readonly<Record<string, readonly string[]>>
type LabelValues<L extends Labels> = { readonly [K in keyof L]: L[K][number] }

export interface Declared {
  readonly name: string
  readonly help: string
  readonly kind: 'counter' | 'gauge' | 'histogram'
  readonly labels: readonly string[]
}

/** Buckets in seconds for latencies that a customer sees: 50 us to 10 s. */
export const latencyBuckets: readonly number[] = [
  0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5,
  5, 10,
]

export class Meters {
  readonly #registry = new Registry()
  readonly #kinds = new Map<string, Declared['kind']>()
  /** Histograms that others count. prom-client cannot take ready-made bucket counts. */
  readonly #reads = new Map<string, () => Family>()
  readonly #joined: (() => Promise<readonly Family[]>)[] = []
  readonly declared: Declared[] = []

  counter(name: string, help: string): Count {
    const count = new Count()
    this.totalRead(name, help, () => count.value)
    return count
  }

  /** A counter with one label: its children by label value. */
  counters<const V extends string>(
    name: string,
    help: string,
    label: string,
    values: readonly V[],
  ): Readonly<Record<V, Count>> {
    const children = values.map((value) => [value, new Count()] as const)
    this.counterRead(name, help, { [label]: values as readonly string[] }, () =>
      children.map(([value, count]) => [{ [label]: value }, count.value] as const),
    )
    // Reason for the cast: fromEntries loses that every value is a key.
    return Object.fromEntries(children) as Record<V, Count>
  }

  /** A counter with two labels. */
  pairs<const A extends string, const B extends string>(
    name: string,
    help: string,
    [first, firsts]: readonly [label: string, values: readonly A[]],
    [second, seconds]: readonly [label: string, values: readonly B[]],
  ): PairTally<A, B> {
    const tally = new PairTally(firsts, seconds)
    const labels: Labels = { [first]: firsts, [second]: seconds }
    this.counterRead(name, help, labels, () =>
      [...tally.read()].map(([a, b, count]) => [{ [first]: a, [second]: b }, count] as const),
    )
    return tally
  }

  gauge(name: string, help: string): GaugeChild {
    this.#declare('gauge', name, help, {})
    return new Gauge({ name, help, registers: [this.#registry] })
  }

  histogram(name: string, help: string, buckets = latencyBuckets): HistogramChild {
    this.#declare('histogram', name, help, {})
    return new Histogram({ name, help, buckets: [...buckets], registers: [this.#registry] })
  }

  /** A gauge that is read at each scrape; it has no series while there is no number. */
  gaugeRead(name: string, help: string, read: Reading): void {
    this.gaugesRead(name, help, {}, seriesOf(read))
  }

  /** The same of a counter. */
  totalRead(name: string, help: string, read: Reading): void {
    this.counterRead(name, help, {}, seriesOf(read))
  }

  /** Labelled gauges that are read at each scrape; labels without a value have no series. */
  gaugesRead<const L extends Labels>(
    name: string,
    help: string,
    labels: L,
    read: () => Iterable<readonly [LabelValues<L>, number]>,
  ): void {
    this.#collect('gauge', name, help, labels, read)
  }

  /** A counter that others count (in a worker's shared memory), read at each scrape. */
  counterRead<const L extends Labels>(
    name: string,
    help: string,
    labels: L,
    read: () => Iterable<readonly [LabelValues<L>, number]>,
  ): void {
    this.#collect('counter', name, help, labels, read)
  }

  /** A histogram of latencies, in plain numbers. */
  latency(name: string, help: string): LatencyTally {
    const tally = new LatencyTally()
    this.histogramsRead(name, help, latencyBuckets, {}, () => [[{}, tally.read()]])
    return tally
  }

  /** Histograms that others count: counts per bucket (the last one is +Inf) and the sum. */
  histogramsRead<const L extends Labels>(
    name: string,
    help: string,
    buckets: readonly number[],
    labels: L,
    read: () => Iterable<readonly [LabelValues<L>, HistogramCounts]>,
  ): void {
    this.#declare('histogram', name, help, labels)
    this.#reads.set(name, () => {
      const samples = [...read()].flatMap(([values, counts]) =>
        samplesOf(name, buckets, values, counts),
      )
      return { name, help, kind: 'histogram', samples }
    })
  }

  /** Adds the families of another process to each exposition. */
  join(read: () => Promise<readonly Family[]>): void {
    this.#joined.push(read)
  }

  /** The exposition, as text 0.0.4 or OpenMetrics 1.0. */
  async render(format: ExpositionFormat): Promise<{ contentType: string; body: string }> {
    const families = await this.#all()
    return { contentType: contentTypes[format], body: renderExposition(families, format) }
  }

  /** Some instruments, also of joined processes; those that nobody declared are left out. */
  async read(names: readonly string[]): Promise<ReadonlyMap<string, Family>> {
    const families = await this.#all(names)
    const read = families.filter(({ name }) => names.includes(name))
    return new Map(read.map((family) => [family.name, family]))
  }

  async #all(names?: readonly string[]): Promise<Family[]> {
    const joined = (await Promise.all(this.#joined.map((read) => read()))).flat()
    const own = await this.families(names)
    return joined.length === 0 ? own : mergeFamilies([...own, ...joined])
  }

  /** The instruments of this process with their values: all, or those of these names. */
  async families(names: readonly string[] = [...this.#kinds.keys()]): Promise<Family[]> {
    const families: Family[] = []
    const metrics = names.map((name) => this.#registry.getSingleMetric(name)?.get())
    for (const metric of await Promise.all(metrics)) {
      const kind = this.#kinds.get(metric?.name ?? '')
      if (metric === undefined || kind === undefined) continue
      families.push({
        name: metric.name,
        help: metric.help,
        kind,
        samples: metric.values.map((value) => ({
          // Reason for the cast: histograms name their samples; the type omits it.
          name: (value as { metricName?: string }).metricName ?? metric.name,
          labels: value.labels as Record<string, string | number>,
          value: value.value,
        })),
      })
    }
    for (const name of names) {
      const read = this.#reads.get(name)
      if (read !== undefined) families.push(read())
    }
    return families
  }

  #collect(
    kind: 'gauge' | 'counter',
    name: string,
    help: string,
    labels: Labels,
    read: () => Iterable<readonly [object, number]>,
  ): void {
    const labelNames = this.#declare(kind, name, help, labels)
    const Instrument = kind === 'gauge' ? Gauge : Counter
    new Instrument({
      name,
      help,
      labelNames,
      registers: [this.#registry],
      collect() {
        this.reset()
        // Which is 0 where there are no labels.
        if (labelNames.length === 0) this.remove()
        for (const [values, value] of read()) this.labels(values as never).inc(value)
      },
    })
  }

  #declare(kind: Declared['kind'], name: string, help: string, labels: Labels): string[] {
    if (this.#kinds.has(name)) throw new Error(`meter ${name} is declared twice`)
    const labelNames = Object.keys(labels)
    this.#kinds.set(name, kind)
    this.declared.push({ kind, name, help, labels: labelNames })
    return labelNames
  }
}

type Reading = () => number | null | undefined

function seriesOf(read: Reading): () => [Record<never, never>, number][] {
  return () => {
    const value = read()
    return value == null ? [] : [[{}, value]]
  }
}

interface HistogramCounts {
  /** One count per bucket, not cumulative; the last one is +Inf. */
  readonly counts: readonly number[]
  readonly sum: number
}

function samplesOf(
  name: string,
  buckets: readonly number[],
  labels: Readonly<Record<string, string>>,
  { counts, sum }: HistogramCounts,
): Sample[] {
  let running = 0
  const samples: Sample[] = [...buckets, '+Inf'].map((le, index) => {
    running += counts[index] ?? 0
    return { name: `${name}_bucket`, labels: { ...labels, le }, value: running }
  })
  samples.push({ name: `${name}_sum`, labels, value: sum })
  samples.push({ name: `${name}_count`, labels, value: running })
  return samples
}

export class Count implements CounterChild {
  value = 0

  inc(by = 1): void {
    this.value += by
  }
}

/** Durations in buckets of seconds. */
export class LatencyTally {
  readonly buckets: readonly number[]
  readonly #counts: Float64Array
  #sum = 0

  constructor(buckets = latencyBuckets) {
    this.buckets = buckets
    this.#counts = new Float64Array(buckets.length + 1)
  }

  observeMs(ms: number): void {
    const seconds = ms / 1000
    let bucket = 0
    while (bucket < this.buckets.length && seconds > this.buckets[bucket]!) bucket++
    this.#counts[bucket]!++
    this.#sum += seconds
  }

  read(): { readonly counts: readonly number[]; readonly sum: number } {
    return { counts: [...this.#counts], sum: this.#sum }
  }
}

/** One count per pair of two closed sets; a name outside the first set counts as its last. */
export class PairTally<A extends string, B extends string> {
  readonly #rows: ReadonlyMap<string, number>
  readonly #first: readonly A[]
  readonly #second: readonly B[]
  readonly #counts: Float64Array

  constructor(first: readonly A[], second: readonly B[]) {
    this.#first = first
    this.#second = second
    this.#rows = new Map(first.map((name, index) => [name, index]))
    this.#counts = new Float64Array(first.length * second.length)
  }

  count(first: string, second: B): void {
    const row = this.#rows.get(first) ?? this.#first.length - 1
    this.#counts[row * this.#second.length + this.#second.indexOf(second)]!++
  }

  *read(): Iterable<readonly [A, B, number]> {
    for (const [row, first] of this.#first.entries())
      for (const [column, second] of this.#second.entries())
        yield [first, second, this.#counts[row * this.#second.length + column]!]
  }
}
