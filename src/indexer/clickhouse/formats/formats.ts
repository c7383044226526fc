// Output formats: one table with their names, content types and layouts, for both engines.
// DuckDB writes the formats that have a layout or a writer here; a ClickHouse
// server writes all of them.

/** Layouts of layouts.ts. */
export type LayoutName =
  | 'json'
  | 'jsonStrings'
  | 'jsonCompact'
  | 'jsonCompactStrings'
  | 'jsonObjects'
  | 'jsonLines'
  | 'jsonStringLines'
  | 'jsonProgressLines'
  | 'jsonArrays'
  | 'jsonStringArrays'
  | 'csv'
  | 'tsv'
  | 'tsvRaw'
  | 'values'
  | 'sqlInsert'
  | 'vertical'
  | 'markdown'
  | 'xml'
  | 'none'
/** Formats of arranged.ts. */
export type ArrangedName =
  | 'jsonColumns'
  | 'jsonCompactColumns'
  | 'jsonColumnsWithMetadata'
  | 'pretty'
  | 'prettyCompact'
  | 'prettySpace'

/** How a format is written: row by row, as a whole from rendered cells, or as bytes. */
export type Writing =
  | { readonly rows: LayoutName }
  | { readonly whole: ArrangedName }
  | { readonly bytes: 'RowBinary' | 'Native' | 'Arrow' | 'Parquet' }
  | { readonly server: true }

export interface Format {
  readonly name: string
  readonly contentType: string
  readonly writing: Writing
  /** Lines before the rows: none, the names, or names and types. */
  readonly heads: 0 | 1 | 2
}

const json = 'application/json; charset=UTF-8'
const lines = 'application/x-ndjson; charset=UTF-8'
const tabs = 'text/tab-separated-values; charset=UTF-8'
const plain = 'text/plain; charset=UTF-8'
const bytes = 'application/octet-stream'
const commas = 'text/csv; charset=UTF-8; header='

const families: readonly (readonly [names: string, contentType: string, writing: Writing])[] = [
  ['JSON', json, { rows: 'json' }],
  ['JSONStrings', json, { rows: 'jsonStrings' }],
  ['JSONCompact', json, { rows: 'jsonCompact' }],
  ['JSONCompactStrings', json, { rows: 'jsonCompactStrings' }],
  ['JSONObjectEachRow', json, { rows: 'jsonObjects' }],
  ['JSONEachRow', lines, { rows: 'jsonLines' }],
  ['JSONStringsEachRow', lines, { rows: 'jsonStringLines' }],
  ['JSONEachRowWithProgress', lines, { rows: 'jsonProgressLines' }],
  ['JSONCompactEachRow+', lines, { rows: 'jsonArrays' }],
  ['JSONCompactStringsEachRow+', lines, { rows: 'jsonStringArrays' }],
  ['JSONColumns', json, { whole: 'jsonColumns' }],
  ['JSONCompactColumns', json, { whole: 'jsonCompactColumns' }],
  ['JSONColumnsWithMetadata', json, { whole: 'jsonColumnsWithMetadata' }],
  ['CSV+', commas, { rows: 'csv' }],
  ['TabSeparated+', tabs, { rows: 'tsv' }],
  ['TabSeparatedRaw+', tabs, { rows: 'tsvRaw' }],
  ['Values', plain, { rows: 'values' }],
  ['SQLInsert', plain, { rows: 'sqlInsert' }],
  ['Vertical', plain, { rows: 'vertical' }],
  ['Markdown', plain, { rows: 'markdown' }],
  ['XML', 'application/xml; charset=UTF-8', { rows: 'xml' }],
  ['Null', plain, { rows: 'none' }],
  ['Pretty', plain, { whole: 'pretty' }],
  ['PrettyCompact', plain, { whole: 'prettyCompact' }],
  ['PrettySpace', plain, { whole: 'prettySpace' }],
  ['RowBinary+', bytes, { bytes: 'RowBinary' }],
  ['Native', bytes, { bytes: 'Native' }],
  ['Arrow', bytes, { bytes: 'Arrow' }],
  ['ArrowStream', bytes, { bytes: 'Arrow' }],
  ['Parquet', bytes, { bytes: 'Parquet' }],
  // Formats that need no file of the server, which is why Template and Protobuf are not here.
  ...[
    'ORC',
    'Avro',
    'MsgPack',
    'BSONEachRow',
    'Npy',
    'RawBLOB',
    'LineAsString',
    'CustomSeparated+',
  ].map((name) => [name, bytes, { server: true }] as const),
]

/** Pretty variants without colours, which are never sent, and in one block, which all are. */
const prettySuffixes = ['NoEscapes', 'MonoBlock', 'NoEscapesMonoBlock']
const aliases: Readonly<Record<string, string>> = {
  jsonlines: 'JSONEachRow',
  ndjson: 'JSONEachRow',
  jsoncolumnswithmeta: 'JSONColumnsWithMetadata',
  md: 'Markdown',
  raw: 'TabSeparatedRaw',
}

const byName = new Map<string, Format>()
for (const [names, contentType, writing] of families) {
  const name = names.replace('+', '')
  const heads = names.endsWith('+') ? ['', 'WithNames', 'WithNamesAndTypes'] : ['']
  for (const [at, suffix] of heads.entries()) add(name + suffix, contentType, writing, at)
  if (name.startsWith('Pretty'))
    for (const suffix of prettySuffixes) add(name + suffix, contentType, writing, 0)
}
for (const [alias, name] of Object.entries(aliases))
  byName.set(alias, byName.get(name.toLowerCase())!)

function add(name: string, contentType: string, writing: Writing, heads: number): void {
  const header = heads === 0 ? 'absent' : 'present'
  const format: Format = {
    name,
    contentType: contentType === commas ? commas + header : contentType,
    writing,
    heads: heads as Format['heads'],
  }
  byName.set(name.toLowerCase(), format)
  if (name.startsWith('TabSeparated'))
    byName.set(name.replace('TabSeparated', 'TSV').toLowerCase(), format)
}

/** ClickHouse's default format. */
export const defaultFormat = 'TabSeparated'

export const formats: readonly Format[] = [...new Set(byName.values())]

/** Null for a format that the engine does not write; names are read without regard to case. */
export function formatOf(name: string, engine: 'duckdb' | 'clickhouse'): Format | null {
  const format = byName.get(name.toLowerCase()) ?? null
  return format !== null && 'server' in format.writing && engine === 'duckdb' ? null : format
}

/** True for formats whose result is UTF-8 text. */
export function isTextFormat({ writing }: Format): boolean {
  return 'rows' in writing || 'whole' in writing
}

/** A truncated result of these formats is useless, so more of it is buffered. */
export function isWhole({ writing, name }: Format): boolean {
  return 'whole' in writing || name === 'Parquet' || /^JSON(Compact)?(Strings)?$/.test(name)
}

/** Options of the written values; absent ones are ClickHouse's defaults. */
export interface OutputOptions {
  /** Writes 64-bit integers as JSON strings. */
  readonly quotes64: boolean
  /** Writes nan and inf as JSON strings instead of null. */
  readonly quotesDenormals?: boolean
  readonly quotesFloats?: boolean
  readonly quotesDecimals?: boolean
  readonly keepsSlashes?: boolean
  readonly tuplesAsArrays?: boolean
  readonly times?: 'simple' | 'iso' | 'unix_timestamp'
  /** Revision of the client's native protocol: decides the header of Native blocks. */
  readonly revision?: number
}

export interface ResultColumn {
  readonly name: string
  /** ClickHouse type name. */
  readonly type: string
}

export interface ResultStatistics {
  readonly rows: number
  /** Rows read from tables to compute them. */
  readonly readRows: number
  readonly elapsedSeconds: number
  /** The statement ends with LIMIT. */
  readonly isLimited: boolean
  /** Rendered cells of the row of WITH TOTALS; null without it. */
  readonly totals: readonly string[] | null
}
