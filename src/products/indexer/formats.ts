// Maps format names to output formats and content types. Thread: any (pure).
import { type OutputFormat, outputFormats } from './engine.ts'

const aliases: Readonly<Record<string, OutputFormat>> = {
  tsv: 'TabSeparated',
  tsvwithnames: 'TabSeparatedWithNames',
  jsonlines: 'JSONEachRow',
  ndjson: 'JSONEachRow',
}
const byName = new Map<string, OutputFormat>([
  ...outputFormats.map((format) => [format.toLowerCase(), format] as const),
  ...Object.entries(aliases),
])

/** ClickHouse's default format. */
export const defaultFormat: OutputFormat = 'TabSeparated'

/** Null for an unsupported format. */
export function formatOf(name: string): OutputFormat | null {
  return byName.get(name.toLowerCase()) ?? null
}

export const contentTypes: Readonly<Record<OutputFormat, string>> = {
  JSON: 'application/json; charset=UTF-8',
  JSONEachRow: 'application/x-ndjson; charset=UTF-8',
  JSONCompact: 'application/json; charset=UTF-8',
  JSONCompactEachRow: 'application/x-ndjson; charset=UTF-8',
  CSV: 'text/csv; charset=UTF-8; header=absent',
  CSVWithNames: 'text/csv; charset=UTF-8; header=present',
  TabSeparated: 'text/tab-separated-values; charset=UTF-8',
  TabSeparatedWithNames: 'text/tab-separated-values; charset=UTF-8',
  Parquet: 'application/octet-stream',
}

/** A truncated result of these formats is useless, so more of it is buffered. */
export function isWhole(format: OutputFormat): boolean {
  return format === 'JSON' || format === 'JSONCompact' || format === 'Parquet'
}
