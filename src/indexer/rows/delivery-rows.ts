// Converts a delivery into rows of all its tables. Runs in the writer process.
import { assert } from '../../base/errors.ts'
import { encodeBase58, keyText } from '../../chain/solana/base58.ts'
import { programs } from '../../chain/solana/programs.ts'
import { type InstructionFacts, TransactionFacts } from '../../chain/solana/transaction-facts.ts'
import { errText } from '../../chain/solana/ui-transaction.ts'
import type { Cell, RowBatch } from '../engine.ts'
import { type Delivery, type SlotParcel, unpackAccounts } from '../engine.ts'
import type { EventFact, TipFact, UsageFact } from '../feed-items.ts'
import { type TableName, tables } from '../tables.ts'

export function addDeliveryRows({ parcels }: Delivery, rows: RowBatches): void {
  for (const { feed, content } of parcels)
    if (feed === 'slots') addSlotRows(content, rows)
    else if (feed === 'events') addEventRows(content, rows)
    else if (feed === 'tips') addTip(content, rows)
    else addUsage(content, rows)
}

function addTip(tip: TipFact, rows: RowBatches): void {
  const { signature, feePayer, tipAccount, lamports, outcome, reason, landedSlot } = tip
  const at = Math.floor(tip.receivedAtMs)
  rows.add('tips', [at, signature, feePayer, tipAccount, lamports, outcome, reason, landedSlot])
}

function addUsage(query: UsageFact, rows: RowBatches): void {
  const { subscription, queryId, elapsedMs, rows: count, bytes, code } = query
  const at = Math.floor(query.atMs)
  rows.add('usage', [subscription, at, queryId, elapsedMs, count, bytes, code])
}

// Converts frames of the event log into rows of the execution tables. Runs in
// the writer process. Columns have the names of the frames' fields, so most cells are copied by
// name; values that a frame does not contain are in its facts.

type Fields = Readonly<Record<string, unknown>>

export function addEventRows(parcel: EventFact, rows: RowBatches): void {
  if (parcel.kind === 'Gap') return
  // Reason for the cast: the payloads are made by flows/execution-projector.ts and our analysis.
  const payload = JSON.parse(Buffer.from(parcel.payload).toString('utf8')) as never
  switch (parcel.kind) {
    case 'TPS':
      rows.add('tps', [parcel.seq, parcel.facts?.blockNumber ?? 0, payload, timeOf(parcel)])
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

/** Null for a frame without facts. */
function timeOf({ facts }: EventFact): bigint | null {
  return facts?.atNs ?? null
}

function addMove({ seq, facts }: EventFact, move: Fields, rows: RowBatches): void {
  const at = facts?.atNs ?? 0n
  const from_stage = move.from_stage ?? ''
  const age_ms = move.block_age_ms
  add('block_lifecycle', { ...move, seq, from_stage, age_ms, at }, rows)
}

interface Accesses {
  readonly account: readonly { key: string; count: number; error: number }[]
  readonly storage: readonly { key: readonly [string, string]; count: number; error: number }[]
}

function addAccesses(fact: EventFact, top: Accesses, rows: RowBatches): void {
  const { seq } = fact
  const of = { seq, block_number: fact.facts?.blockNumber ?? 0, at: timeOf(fact) }
  top.account.forEach(({ key, count, error }, index) => {
    const cells = { ...of, kind: 'account', rank: index + 1, address: key, slot: '' }
    add('top_accesses', { ...cells, count, error }, rows)
  })
  top.storage.forEach(({ key: [address, slot], count, error }, index) => {
    const cells = { ...of, kind: 'storage', rank: index + 1, address, slot }
    add('top_accesses', { ...cells, count, error }, rows)
  })
}

const lists = [
  ['top_contended_slots', 'contended_slots'],
  ['top_contended_contracts', 'contended_contracts'],
  ['contract_edges', 'contract_edges'],
] as const

function addContention(fact: EventFact, data: Fields, rows: RowBatches): void {
  const { seq, facts } = fact
  const { block_number } = data
  const at = timeOf(fact)
  add('contention', { block_hash: facts?.block?.blockHash ?? '', ...data, seq, at }, rows)
  for (const [field, table] of lists)
    (data[field] as readonly Fields[]).forEach((element, index) => {
      add(table, { ...element, seq, block_number, rank: index + 1, at }, rows)
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
    names.map((name) => (fields[name] === undefined ? 0 : fields[name]) as Cell),
  )
}

const columnNames = new Map(
  Object.entries(tables).map(([name, { columns }]) => [name as TableName, Object.keys(columns)]),
)

// Converts a confirmed slot into rows of blocks, transactions, instructions, account_updates and
// token_transfers. Runs in the writer process.
// Strings are encoded as in getBlock: base58 for keys, signatures and instruction data.

export function addSlotRows(parcel: SlotParcel, rows: RowBatches): void {
  const { slot, blockTime, block } = parcel
  const time = timeIn(parcel)
  for (const info of parcel.transactions)
    addTransaction(new TransactionFacts(info), { slot, blockTime }, rows)
  for (const account of unpackAccounts(parcel.accounts))
    rows.add('account_updates', [
      slot,
      account.index,
      keyText(account.pubkey),
      keyText(account.owner),
      account.lamports,
      account.dataBytes,
      account.writeVersion,
      time,
    ])
  if (block === null) return
  const { parentSlot, blockhash, height, txCount } = block
  rows.add('blocks', [slot, parentSlot, blockhash, height, blockTime, txCount])
}

interface SlotInfo {
  readonly slot: number
  /** 0 when it is not known. */
  readonly blockTime: number
}

function timeIn({ blockTime }: SlotInfo): number | null {
  return blockTime === 0 ? null : blockTime
}

function addTransaction(transaction: TransactionFacts, info: SlotInfo, rows: RowBatches): void {
  const { index, signature, keys, err } = transaction
  const { slot, blockTime } = info
  rows.add('transactions', [
    slot,
    index,
    signature,
    keys[0] ?? '',
    err === null ? 1 : 0,
    err === null ? '' : errText(err),
    transaction.fee,
    transaction.computeUnits,
    transaction.version,
    blockTime,
  ])
  for (const instruction of transaction.instructions)
    addInstruction(instruction, transaction, info, rows)
}

function addInstruction(
  instruction: InstructionFacts,
  transaction: TransactionFacts,
  info: SlotInfo,
  rows: RowBatches,
): void {
  const { slot } = info
  const time = timeIn(info)
  const { ix, innerIx, accountsStart, accountsEnd, dataStart, dataEnd } = instruction
  const { index, signature, bytes, keys } = transaction
  const program = keys[instruction.programAt] ?? ''
  const accounts: string[] = []
  for (let at = accountsStart; at < accountsEnd; at++) accounts.push(keys[bytes[at]!] ?? '')
  const data = encodeBase58(bytes, dataStart, dataEnd)
  rows.add('instructions', [slot, index, ix, innerIx, signature, program, accounts, data, time])
  // A failed transaction transfers nothing.
  const moved = transaction.err === null ? tokenTransfer(instruction, program, transaction) : null
  if (moved === null) return
  const { mint, source, destination, authority, amount, decimals } = moved
  const cells = [signature, mint, source, destination, authority, amount, decimals, innerIx]
  rows.add('token_transfers', [slot, index, ix, ...cells, time])
}

// Parses token transfers from instructions of SPL Token and Token-2022.
// A plain transfer has no mint: it is taken from the transaction's token balances.
//
//   3      transfer                source, destination, authority        amount
//   12     transferChecked         source, mint, destination, authority  amount, decimals
//   26, 1  transferCheckedWithFee  the same (Token-2022)                 amount, decimals, fee

const token = keyText(programs.token)
const token2022 = keyText(programs.token2022)
const tag = { transfer: 3, transferChecked: 12, transferFee: 26 } as const
/** Second tag byte, after the tag of the transfer-fee extension. */
const transferCheckedWithFee = 1

export interface TokenTransfer {
  readonly source: string
  readonly destination: string
  readonly authority: string
  /** '' when neither the instruction nor the token balances have it. */
  readonly mint: string
  readonly amount: bigint
  readonly decimals: number
}

/** Null for anything but a transfer, and for one with too few accounts or too short data. */
export function tokenTransfer(
  instruction: InstructionFacts,
  program: string,
  transaction: TransactionFacts,
): TokenTransfer | null {
  if (program !== token && program !== token2022) return null
  const { accountsStart, accountsEnd, dataStart, dataEnd } = instruction
  const { bytes, keys } = transaction
  const kind = bytes[dataStart]
  const isWithFee = program === token2022 && kind === tag.transferFee
  const hasMint = kind === tag.transferChecked || isWithFee
  if (dataEnd - dataStart < 9 || (kind !== tag.transfer && !hasMint)) return null
  if (isWithFee && bytes[dataStart + 1] !== transferCheckedWithFee) return null
  const amountAt = dataStart + (isWithFee ? 2 : 1)
  const isShort = accountsEnd - accountsStart < (hasMint ? 4 : 3)
  if (isShort || (hasMint && dataEnd < amountAt + 9)) return null
  const key = (at: number) => keys[bytes[accountsStart + at]!] ?? ''
  const amount = bytes.readBigUInt64LE(amountAt)
  if (hasMint)
    return {
      source: key(0),
      mint: key(1),
      destination: key(2),
      authority: key(3),
      amount,
      decimals: bytes[amountAt + 8]!,
    }
  const found = transaction.tokenOf(bytes[accountsStart]!, bytes[accountsStart + 1]!)
  const { mint, decimals } = found ?? { mint: '', decimals: 0 }
  return { source: key(0), destination: key(1), authority: key(2), mint, amount, decimals }
}

// Collects rows per table in columns, the form a sink accepts.

interface Columns {
  readonly table: TableName
  count: number
  readonly columns: Cell[][]
}

export class RowBatches {
  readonly #byTable = new Map<TableName, Columns>()
  /** Rows of all tables. */
  count = 0

  /** Adds a row; its cells are in the order of the table's columns. */
  add(table: TableName, cells: readonly Cell[]): void {
    const rows = this.#byTable.get(table) ?? this.#begin(table)
    const { columns } = rows
    assert(cells.length === columns.length, `a row of ${table} has all its columns`)
    for (let at = 0; at < cells.length; at++) columns[at]!.push(cells[at]!)
    rows.count++
    this.count++
  }

  /** Returns everything collected so far and empties the collection. */
  take(): RowBatch[] {
    const taken = [...this.#byTable.values()]
    this.#byTable.clear()
    this.count = 0
    return taken
  }

  #begin(table: TableName): Columns {
    const columns = Object.keys(tables[table].columns).map((): Cell[] => [])
    const rows: Columns = { table, count: 0, columns }
    this.#byTable.set(table, rows)
    return rows
  }
}
