// Prometheus instruments, declared once per module and rendered without promtool lint findings.
// The only importer of prom-client. Names start `sluice_`; labels come from closed
// sets.
// Labelled children are looked up once, outside the hot path: `counter.with(...)` in a constructor.
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
// Reason for `never`: the overloads state the exact label values; the implementation takes any.
interface Children<C> {
  with(values: never): C
}
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
  readonly #reads: (() => Family)[] = []
  readonly #joined: (() => Promise<readonly Family[]>)[] = []
  readonly declared: Declared[] = []

  counter(name: string, help: string): CounterChild
  counter<const L extends Labels>(
    name: string,
    help: string,
    labels: L,
  ): { with(values: LabelValues<L>): CounterChild }
  counter(name: string, help: string, labels: Labels = {}): CounterChild | Children<CounterChild> {
    const labelNames = this.#declare('counter', name, help, labels)
    const counter = new Counter({ name, help, labelNames, registers: [this.#registry] })
    if (labelNames.length === 0) return counter
    for (const values of combinations(labels)) counter.labels(values).inc(0)
    return { with: (values: Record<string, string>) => counter.labels(values) }
  }

  /** A counter with one label: its children by label value. */
  counters<const V extends string>(
    name: string,
    help: string,
    label: string,
    values: readonly V[],
  ): Readonly<Record<V, CounterChild>> {
    const counter = this.counter(name, help, { [label]: values as readonly string[] })
    const children = values.map((value) => [value, counter.with({ [label]: value })])
    // Reason for the cast: fromEntries loses that every value is a key.
    return Object.fromEntries(children) as Record<V, CounterChild>
  }

  gauge(name: string, help: string): GaugeChild
  gauge<const L extends Labels>(
    name: string,
    help: string,
    labels: L,
  ): { with(values: LabelValues<L>): GaugeChild }
  gauge(name: string, help: string, labels: Labels = {}): GaugeChild | Children<GaugeChild> {
    const labelNames = this.#declare('gauge', name, help, labels)
    const gauge = new Gauge({ name, help, labelNames, registers: [this.#registry] })
    if (labelNames.length === 0) return gauge
    return { with: (values: Record<string, string>) => gauge.labels(values) }
  }

  histogram(name: string, help: string, buckets?: readonly number[]): HistogramChild
  histogram<const L extends Labels>(
    name: string,
    help: string,
    buckets: readonly number[],
    labels: L,
  ): { with(values: LabelValues<L>): HistogramChild }
  histogram(
    name: string,
    help: string,
    buckets = latencyBuckets,
    labels: Labels = {},
  ): HistogramChild | Children<HistogramChild> {
    const labelNames = this.#declare('histogram', name, help, labels)
    const histogram = new Histogram({
      name,
      help,
      labelNames,
      buckets: [...buckets],
      registers: [this.#registry],
    })
    if (labelNames.length === 0) return histogram
    return { with: (values: Record<string, string>) => histogram.labels(values) }
  }

  /** A gauge that is read at each scrape. */
  gaugeRead(name: string, help: string, read: () => number): void {
    this.gaugesRead(name, help, {}, () => [[{}, read()]])
  }

  /** Labelled gauges that are read at each scrape; labels without a value have no series. */
  gaugesRead<const L extends Labels>(
    name: string,
    help: string,
    labels: L,
    read: () => Iterable<readonly [LabelValues<L>, number]>,
  ): void {
    const labelNames = this.#declare('gauge', name, help, labels)
    new Gauge({
      name,
      help,
      labelNames,
      registers: [this.#registry],
      collect() {
        this.reset()
        for (const [values, value] of read()) this.labels(values as never).set(value)
      },
    })
  }

  /** A counter that others count (in a worker's shared memory), read at each scrape. */
  counterRead<const L extends Labels>(
    name: string,
    help: string,
    labels: L,
    read: () => Iterable<readonly [LabelValues<L>, number]>,
  ): void {
    const labelNames = this.#declare('counter', name, help, labels)
    new Counter({
      name,
      help,
      labelNames,
      registers: [this.#registry],
      collect() {
        this.reset()
        for (const [values, total] of read()) this.labels(values as never).inc(total)
      },
    })
  }

  /** A histogram that others count: counts per bucket (the last one is +Inf) and the sum. */
  histogramRead(
    name: string,
    help: string,
    buckets: readonly number[],
    read: () => HistogramCounts,
  ): void {
    this.histogramsRead(name, help, buckets, {}, () => [[{}, read()]])
  }

  /** Such histograms, one for each set of labels. */
  histogramsRead<const L extends Labels>(
    name: string,
    help: string,
    buckets: readonly number[],
    labels: L,
    read: () => Iterable<readonly [LabelValues<L>, HistogramCounts]>,
  ): void {
    this.#declare('histogram', name, help, labels)
    this.#reads.push(() => {
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
    const joined = (await Promise.all(this.#joined.map((read) => read()))).flat()
    const own = await this.families()
    const families = joined.length === 0 ? own : mergeFamilies([...own, ...joined])
    return { contentType: contentTypes[format], body: renderExposition(families, format) }
  }

  /** The instruments of this process with their values. */
  async families(): Promise<Family[]> {
    const families: Family[] = []
    for (const metric of await this.#registry.getMetricsAsJSON()) {
      const kind = this.#kinds.get(metric.name)
      if (kind === undefined) continue
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
    for (const read of this.#reads) families.push(read())
    return families
  }

  #declare(kind: Declared['kind'], name: string, help: string, labels: Labels): string[] {
    if (this.#kinds.has(name)) throw new Error(`meter ${name} is declared twice`)
    const labelNames = Object.keys(labels)
    this.#kinds.set(name, kind)
    this.declared.push({ kind, name, help, labels: labelNames })
    return labelNames
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

/** Every combination of the closed label sets, so that each series exists from the first scrape. */
function combinations(labels: Labels): Record<string, string>[] {
  let rows: Record<string, string>[] = [{}]
  for (const [name, values] of Object.entries(labels))
    rows = rows.flatMap((row) => values.map((value) => ({ ...row, [name]: value })))
  return rows
}
