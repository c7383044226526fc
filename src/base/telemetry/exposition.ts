// Renders instruments as Prometheus text 0.0.4 or OpenMetrics 1.0. Thread: main, at each scrape.
// prom-client could render both, but its OpenMetrics form renames the counters of the registry
// permanently, and two scrapes at once would mix formats.

export type ExpositionFormat = 'text' | 'openmetrics'

export interface Family {
  readonly name: string
  readonly help: string
  readonly kind: 'counter' | 'gauge' | 'histogram'
  readonly samples: readonly Sample[]
}

export interface Sample {
  /** With suffix: `…_bucket`, `…_sum`, `…_total`. */
  readonly name: string
  readonly labels: Readonly<Record<string, string | number>>
  readonly value: number
}

export const contentTypes: Readonly<Record<ExpositionFormat, string>> = {
  text: 'text/plain; version=0.0.4; charset=utf-8',
  openmetrics: 'application/openmetrics-text; version=1.0.0; charset=utf-8',
}

/** The whole exposition. In OpenMetrics a counter's family drops `_total`, its samples keep it. */
export function renderExposition(families: readonly Family[], format: ExpositionFormat): string {
  const lines: string[] = []
  for (const family of families) {
    const isOpen = format === 'openmetrics'
    const name =
      isOpen && family.kind === 'counter' ? family.name.replace(/_total$/, '') : family.name
    lines.push(`# HELP ${name} ${escapeHelp(family.help, isOpen)}`, `# TYPE ${name} ${family.kind}`)
    for (const sample of family.samples)
      lines.push(`${sample.name}${labelsText(sample.labels, isOpen)} ${numberText(sample.value)}`)
  }
  if (format === 'openmetrics') lines.push('# EOF')
  return `${lines.join('\n')}\n`
}

/** One family per name, with the samples of all. */
export function mergeFamilies(families: readonly Family[]): Family[] {
  const merged = new Map<string, Family & { readonly samples: Sample[] }>()
  for (const family of families) {
    const known = merged.get(family.name)
    if (known === undefined) merged.set(family.name, { ...family, samples: [...family.samples] })
    else known.samples.push(...family.samples)
  }
  return [...merged.values()]
}

/** The format that a scraper's Accept header requests: OpenMetrics only when it is named. */
export function formatFor(accept: string): ExpositionFormat {
  return /(^|[\s,])application\/openmetrics-text\b/i.test(accept) ? 'openmetrics' : 'text'
}

function labelsText(labels: Sample['labels'], isOpen: boolean): string {
  const parts = Object.entries(labels).map(([name, value]) => {
    // OpenMetrics requires bucket bounds as floats: 1 is written 1.0.
    const isBound = isOpen && name === 'le' && Number.isInteger(value)
    const text = isBound ? Number(value).toFixed(1) : String(value)
    const escaped = text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n').replaceAll('"', '\\"')
    return `${name}="${escaped}"`
  })
  return parts.length === 0 ? '' : `{${parts.join(',')}}`
}

function numberText(value: number): string {
  if (Number.isNaN(value)) return 'NaN'
  if (value === Number.POSITIVE_INFINITY) return '+Inf'
  return value === Number.NEGATIVE_INFINITY ? '-Inf' : String(value)
}

function escapeHelp(text: string, isOpen: boolean): string {
  const escaped = text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n')
  return isOpen ? escaped.replaceAll('"', '\\"') : escaped
}
