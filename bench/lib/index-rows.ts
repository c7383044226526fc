// Rows of every table of the indexer, made from a seed: the same seed, the same rows. They look
// like a chain's (few programs and payers do most, some transactions fail, fees have a long tail),
// so that grouping and filtering cost what they cost on real ones.
// Thread: main of a bench or test.
import type { Cell, RowBatch } from '../../src/products/indexer/engine.ts'
import { type Table, type TableName, tables } from '../../src/products/indexer/tables.ts'

export interface RowPlan {
  readonly seed: number
  readonly slots: number
  readonly transactionsPerSlot: number
  /** Blocks of the execution chain. */
  readonly blocks: number
  readonly tips: number
  readonly usage: number
  /** Left out: all. Tables of a transaction's parts come together, with `instructions`. */
  readonly only?: readonly TableName[]
}

/** 2026-01-05 00:00:00 UTC, a Monday. */
export const firstSecond = 1_767_571_200
export const firstSlot = 390_000_000
export const subscriptions = ['sub-alice', 'sub-bob']
const slotMs = 400
const rowsPerBatch = 20_000
const errors = ['InsufficientFundsForFee', 'InstructionError(2, Custom(6001))', 'AccountInUse']
const stages = ['Proposed', 'Voted', 'Finalized', 'Verified']
const alphabet = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz'

/** Batches in the order of the feeds, none larger than a writer would hand over. */
export function* makeRows(plan: RowPlan): Iterable<RowBatch> {
  const book = new Book(plan)
  for (let slot = 0; slot < plan.slots; slot++) {
    addSlot(book, slot, plan.transactionsPerSlot)
    yield* book.full()
  }
  for (let block = 0; block < plan.blocks; block++) {
    addBlock(book, block)
    yield* book.full()
  }
  for (let n = 0; n < plan.tips; n++) addTip(book, n)
  for (let n = 0; n < plan.usage; n++) addUsage(book, n)
  yield* book.rest()
}

/** Gathers rows by table, and all the random choices. */
class Book {
  readonly #only: ReadonlySet<TableName> | null
  readonly #columns = new Map<TableName, Cell[][]>()
  readonly payers: readonly string[]
  readonly programs: readonly string[]
  readonly mints: readonly string[]
  readonly contracts: readonly string[]
  #state: number

  constructor({ seed, only }: RowPlan) {
    this.#only = only === undefined ? null : new Set(only)
    this.#state = seed
    this.payers = Array.from({ length: 5_000 }, () => this.text(44))
    this.programs = Array.from({ length: 24 }, () => this.text(43))
    this.mints = Array.from({ length: 60 }, () => this.text(44))
    this.contracts = Array.from({ length: 80 }, () => `0x${this.hex(40)}`)
  }

  /** 0 up to 1 (mulberry32). */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0
    let t = this.#state
    t = Math.imul(t ^ (t >>> 15), t | 1)
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61)
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296
  }

  below(limit: number): number {
    return Math.floor(this.next() * limit)
  }

  /** Favours the first ones, as chains do. */
  pick(list: readonly string[]): string {
    return list[Math.floor(this.next() ** 3 * list.length)]!
  }

  text(chars: number): string {
    let text = ''
    for (let n = 0; n < chars; n++) text += alphabet[this.below(58)]
    return text
  }

  hex(chars: number): string {
    let text = ''
    while (text.length < chars) text += this.below(0x1000000).toString(16).padStart(6, '0')
    return text.slice(0, chars)
  }

  wants(table: TableName): boolean {
    return this.#only === null || this.#only.has(table)
  }

  /** By column name; the table says which and in what order. */
  add(table: TableName, row: Readonly<Record<string, Cell>>): void {
    if (!this.wants(table)) return
    const names = Object.keys((tables[table] as Table).columns)
    let columns = this.#columns.get(table)
    if (columns === undefined) {
      columns = names.map(() => [])
      this.#columns.set(table, columns)
    }
    for (const [index, name] of names.entries()) columns[index]!.push(row[name]!)
  }

  *full(): Iterable<RowBatch> {
    for (const [table, columns] of this.#columns)
      if (columns[0]!.length >= rowsPerBatch) yield this.#take(table, columns)
  }

  *rest(): Iterable<RowBatch> {
    for (const [table, columns] of this.#columns) yield this.#take(table, columns)
  }

  #take(table: TableName, columns: Cell[][]): RowBatch {
    this.#columns.delete(table)
    return { table, count: columns[0]!.length, columns }
  }
}

function addSlot(book: Book, index: number, transactions: number): void {
  const slot = firstSlot + index
  const block_time = firstSecond + Math.floor((index * slotMs) / 1000)
  book.add('blocks', {
    slot,
    parent_slot: slot - 1,
    blockhash: book.text(44),
    height: slot - 21_000_000,
    block_time,
    tx_count: transactions,
  })
  for (let idx = 0; idx < transactions; idx++) addTransaction(book, { slot, idx, block_time })
}

function addTransaction(
  book: Book,
  at: { readonly slot: number; readonly idx: number; readonly block_time: number },
): void {
  const { slot, idx } = at
  const signature = book.text(12).padEnd(88, `${slot}`)
  const fee_payer = book.pick(book.payers)
  const success = book.next() < 0.94 ? 1 : 0
  book.add('transactions', {
    ...at,
    signature,
    fee_payer,
    success,
    err: success === 1 ? '' : errors[book.below(errors.length)]!,
    fee: BigInt(5_000 + (book.next() < 0.4 ? Math.floor(book.next() ** 6 * 5_000_000) : 0)),
    compute_units: 150 + Math.floor(book.next() ** 2 * 400_000),
    version: book.next() < 0.6 ? 0 : -1,
  })
  if (!book.wants('instructions')) return
  const count = 1 + book.below(3)
  for (let ix = 0; ix < count; ix++)
    for (let inner_ix = -1; inner_ix < (book.next() < 0.3 ? 1 : 0); inner_ix++)
      book.add('instructions', {
        ...at,
        ix,
        inner_ix,
        signature,
        program: book.pick(book.programs),
        accounts: Array.from({ length: 1 + book.below(5) }, () => book.pick(book.payers)),
        data: book.text(12),
      })
  for (let n = 0; n < 2; n++)
    book.add('account_updates', {
      ...at,
      pubkey: n === 0 ? fee_payer : book.pick(book.payers),
      owner: book.pick(book.programs),
      // Beyond 2^53 now and then, where a careless engine would round.
      lamports:
        book.next() < 0.01
          ? 18_446_744_073_709_551_000n + BigInt(idx % 500)
          : BigInt(book.below(2 ** 40)),
      data_len: book.below(4) * 165,
      write_version: slot * 10_000 + idx * 2 + n,
    })
  if (book.next() < 0.25)
    book.add('token_transfers', {
      ...at,
      ix: 0,
      inner_ix: book.next() < 0.5 ? -1 : 0,
      signature,
      mint: book.pick(book.mints),
      source: book.pick(book.payers),
      destination: book.pick(book.payers),
      authority: fee_payer,
      amount: BigInt(book.below(2 ** 40)) * 1_000n,
      decimals: [6, 9, 0][book.below(3)]!,
    })
}

function addBlock(book: Book, index: number): void {
  const number = 1_000_000 + index
  const block_number = number
  const seq = 1 + index * 10
  const block_hash = `0x${book.hex(64)}`
  const startNs =
    BigInt(firstSecond) * 1_000_000_000n +
    BigInt(index) * 400_000_000n +
    BigInt(book.below(999_999))
  const txns = 1 + book.below(300)
  book.add('execution_blocks', {
    number,
    block_hash,
    eth_hash: `0x${book.hex(64)}`,
    tx_count: txns,
    gas_used: 21_000 * txns + book.below(1_000_000),
    started_at: startNs,
  })
  book.add('tps', { seq, block_number, tps: txns * 2 + book.below(50) })
  const unique = 50 + book.below(2_000)
  const contended = book.below(unique)
  book.add('contention', {
    seq: seq + 1,
    block_number,
    block_wall_time_ns: 40_000_000 + book.below(200_000_000),
    total_tx_time_ns: 60_000_000 + book.below(400_000_000),
    parallel_efficiency_pct: Math.round(book.next() * 100_000) / 1_000,
    total_unique_slots: unique,
    contended_slot_count: contended,
    contention_ratio: Math.round((contended / unique) * 1_048_576) / 1_048_576,
    total_txn_count: txns,
    written_contended_slot_count: Math.floor(contended / 2),
    critical_path_txn_count: 1 + book.below(txns),
  })
  addLists(book, { seq, block_number, block_hash, startNs })
}

function addLists(
  book: Book,
  at: {
    readonly seq: number
    readonly block_number: number
    readonly block_hash: string
    readonly startNs: bigint
  },
): void {
  const { seq, block_number, block_hash, startNs } = at
  for (let rank = 1; rank <= 5; rank++) {
    const address = book.pick(book.contracts)
    const slot = `0x${book.hex(64)}`
    const total_slots = 4 * (1 + book.below(64))
    const own = { seq: seq + 1, block_number, rank, address }
    book.add('contended_slots', {
      ...own,
      slot,
      txn_count: 100 - rank * 7,
      access_count: 900 - rank * 31,
    })
    book.add('contended_contracts', {
      ...own,
      total_slots,
      contended_slots: total_slots / 4,
      total_accesses: total_slots * 3,
      contention_score: 0.25,
    })
    book.add('contract_edges', {
      ...own,
      contract_a: address,
      contract_b: book.pick(book.contracts),
      shared_txn_count: 60 - rank,
    })
    for (const kind of ['account', 'storage'])
      book.add('top_accesses', {
        ...own,
        seq: seq + 2,
        kind,
        slot: kind === 'storage' ? slot : '',
        count: 5_000 - rank * 100 + book.below(90),
        error: book.below(20),
      })
  }
  for (const [step, to_stage] of stages.entries())
    book.add('block_lifecycle', {
      seq: seq + 3 + step,
      block_number,
      block_hash,
      from_stage: step === 0 ? '' : stages[step - 1]!,
      to_stage,
      age_ms: step * 400 + book.below(64) / 64,
      at: startNs + BigInt(step) * 400_000_000n,
    })
}

function addTip(book: Book, n: number): void {
  const hasLanded = book.next() < 0.8
  book.add('tips', {
    received_at: firstSecond * 1000 + n * 137,
    signature: book.text(88),
    fee_payer: book.pick(book.payers),
    tip_account: book.payers[n % 8]!,
    lamports: BigInt(1_000_000 + book.below(9_000_000)),
    outcome: hasLanded ? 'landed' : 'rejected',
    reason: hasLanded ? '' : 'TIP_TOO_LOW',
    landed_slot: hasLanded ? firstSlot + n : 0,
  })
}

function addUsage(book: Book, n: number): void {
  book.add('usage', {
    subscription: subscriptions[n % 2]!,
    at: firstSecond * 1000 + n * 1_009,
    query_id: `q-${n}`,
    elapsed_ms: book.below(4_000) / 8,
    rows: book.below(10_000),
    bytes: book.below(1_000_000),
    code: n % 7 === 0 ? 62 : 0,
  })
}
