// Converts frames of the event log into rows of the execution tables. Runs in
// the writer process. Columns have the names of the frames' fields, so most cells are copied by
// name; values that a frame does not contain are in its facts.
import type { Cell } from '../engine.ts'
import type { EventParcel } from '../parcels.ts'
import { type TableName, tables } from '../tables.ts'
import type { RowBatches } from './batches.ts'

type Fields = Readonly<Record<string, unknown>>

export function addEventRows(parcel: EventParcel, rows: RowBatches): void {
  if (parcel.kind === 'Gap') return
  // Reason for the cast: the payloads are made by flows/execution-projector.ts and our analysis.
  const payload = JSON.parse(Buffer.from(parcel.payload).toString('utf8')) as never
  switch (parcel.kind) {
    case 'TPS':
      rows.add('tps', [parcel.seq, parcel.facts?.blockNumber ?? 0, payload])
      return
    case 'Lifecycle':
      addMove(parcel, payload, rows)
      return
    case 'TopAccesses':
      addAccesses(parcel, payload, rows)
      return
    case 'ContentionData':
      addContention(parcel, payload, rows)
  }
}

function addMove({ seq, facts }: EventParcel, move: Fields, rows: RowBatches): void {
  const at = facts?.atNs ?? 0n
  const from_stage = move.from_stage ?? ''
  const age_ms = move.block_age_ms
  add('block_lifecycle', { ...move, seq, from_stage, age_ms, at }, rows)
}

interface Accesses {
  readonly account: readonly { key: string; count: number; error: number }[]
  readonly storage: readonly { key: readonly [string, string]; count: number; error: number }[]
}

function addAccesses({ seq, facts }: EventParcel, top: Accesses, rows: RowBatches): void {
  const block_number = facts?.blockNumber ?? 0
  top.account.forEach(({ key, count, error }, index) => {
    const cells = { seq, block_number, kind: 'account', rank: index + 1, address: key, slot: '' }
    add('top_accesses', { ...cells, count, error }, rows)
  })
  top.storage.forEach(({ key: [address, slot], count, error }, index) => {
    const cells = { seq, block_number, kind: 'storage', rank: index + 1, address, slot }
    add('top_accesses', { ...cells, count, error }, rows)
  })
}

const lists = [
  ['top_contended_slots', 'contended_slots'],
  ['top_contended_contracts', 'contended_contracts'],
  ['contract_edges', 'contract_edges'],
] as const

function addContention({ seq, facts }: EventParcel, data: Fields, rows: RowBatches): void {
  const { block_number } = data
  add('contention', { block_hash: facts?.block?.blockHash ?? '', ...data, seq }, rows)
  for (const [field, table] of lists)
    (data[field] as readonly Fields[]).forEach((element, index) => {
      add(table, { ...element, seq, block_number, rank: index + 1 }, rows)
    })
  const block = facts?.block
  if (block === undefined) return
  add(
    'execution_blocks',
    {
      number: block_number,
      block_hash: block.blockHash,
      eth_hash: block.ethHash,
      tx_count: block.txCount,
      gas_used: block.gasUsed,
      started_at: block.startedNs,
    },
    rows,
  )
}

/** Picks the table's columns from the fields; a missing one is 0. */
function add(table: TableName, fields: Fields, rows: RowBatches): void {
  const names = columnNames.get(table)!
  rows.add(
    table,
    names.map((name) => (fields[name] ?? 0) as Cell),
  )
}

const columnNames = new Map(
  Object.entries(tables).map(([name, { columns }]) => [name as TableName, Object.keys(columns)]),
)
