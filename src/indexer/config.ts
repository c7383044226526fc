// The `indexer` section of the configuration.
import { totalmem } from 'node:os'
import { choice, flag, group, integer, text, texts, type Values } from '../base/fields.ts'

/** What the writer has read and not yet written; beyond it, it pauses the streams. */
export const unackedBytesMax = 8 * 1024 * 1024
/** Most tips, and most queries, that wait in the gateway's memory for the writer. */
export const factsMax = 10_000
/** Streams and calls of one enrolled indexer at once: it has four and two. */
export const feedCallsMax = 32
/** Most requests of a gateway that its query program works on; more are refused with 429. */
export const queriesMax = 1_024
/** Begins every failure to reach the ClickHouse server. */
export const awayText = 'ClickHouse cannot be reached'
/** Begins every refusal of the writer lease of a ClickHouse server. */
export const heldText = 'another Sluice program writes to this ClickHouse server'
/** Query processes of the embedded engine: kept, also idle; at most. */
export const queryProcesses = { warm: 2, processesMax: 6 }
/** Memory of a query of the plan `standard`; of its process besides; what all may take together. */
export const queryBytes = {
  standard: 512_000_000,
  overhead: 388_000_000,
  most: (warm: number = queryProcesses.warm) =>
    Math.max(warm * (queryBytes.standard + queryBytes.overhead), totalmem() / 2),
}
/** Memory of the embedded engine in the index writer. */
export const engineBytesMax = 1_000_000_000

export const indexerSection = group('SQL over what passed, on the HTTP interface of ClickHouse.', {
  enabled: flag({ initial: true, doc: 'Opens the endpoint.' }),
  host: text({ initial: '127.0.0.1', doc: 'Address to listen on.' }),
  port: integer({ initial: 8123, min: 0, max: 65_535, doc: 'Port; 0 takes any free one.' }),
  inFlightPerAddress: integer({
    initial: 64,
    min: 1,
    max: 100_000,
    doc: 'Requests of one client address that may wait for body or answer at once.',
  }),
  cors: texts({
    initial: [],
    doc: 'Origins of web pages that may query with their own credentials; `*` for all.',
  }),
  tokenInPassword: flag({
    initial: false,
    doc: 'Takes the password `<password>.<token>` of clients that cannot send `x-token`.',
  }),
  feeds: group('Streams that the index is built from, for `sluice indexer serve` elsewhere.', {
    enabled: flag({ initial: false, doc: 'Opens the endpoint; enrolled indexers may read it.' }),
    host: text({ initial: '127.0.0.1', doc: 'Address to listen on.' }),
    port: integer({ initial: 8124, min: 0, max: 65_535, doc: 'Port; 0 takes any free one.' }),
  }),
  slowQueryMs: integer({
    initial: 1_000,
    min: 0,
    max: 3_600_000,
    unit: 'ms',
    doc: 'A query that took longer is logged, without its literals; 0 logs none.',
  }),
  engine: choice(['duckdb', 'clickhouse'], {
    initial: 'duckdb',
    doc: 'Where rows are kept: DuckDB under the data folder, or a ClickHouse server.',
  }),
  url: text({
    initial: '',
    secret: true,
    doc: 'HTTP address of the ClickHouse server, with its credentials when it requires them.',
  }),
  queryUrl: text({
    initial: '',
    secret: true,
    doc: "The same with another user, who runs customers' queries; empty: the user of `url` does.",
  }),
  clickhouse: group('Inserts into the ClickHouse server.', {
    insertMs: integer({
      initial: 2_000,
      min: 10,
      max: 60_000,
      unit: 'ms',
      doc: 'Rows are gathered this long and then inserted: the freshness of queries.',
    }),
    insertRows: integer({
      initial: 100_000,
      min: 1,
      max: 1_000_000,
      doc: 'So many gathered rows are inserted at once.',
    }),
  }),
  write: flag({
    initial: true,
    doc: 'Writes the index; false where `sluice indexer serve` does, on a ClickHouse server.',
  }),
  retentionDays: integer({
    initial: 30,
    min: 1,
    max: 3_650,
    unit: 'days',
    doc: 'Rows older than this are dropped.',
  }),
  retentionBytes: integer({
    initial: 20_000_000_000,
    min: 100_000_000,
    max: 1_000_000_000_000_000,
    unit: 'bytes',
    doc: 'Disk that the rows of DuckDB may take; the oldest are dropped beyond it.',
  }),
})

export type IndexerSection = Values<typeof indexerSection.fields>
/** What the writer needs of it. */
export type IngestSection = Pick<
  IndexerSection,
  'engine' | 'url' | 'clickhouse' | 'retentionDays' | 'retentionBytes'
>
