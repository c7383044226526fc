// Rows of every table of the indexer, made from a seed: the same seed, the same rows. They look
// like a chain's (few programs and payers do most, some transactions fail, fees have a long tail),
// so that grouping and filtering cost what they cost on real ones.
// Thread: main of a bench or test.

import type { Cell, RowBatch } from '../../src/indexer/engine.ts'
import { type Table, type TableName, tables } from '../../src/indexer/tables.ts'
import { SeededRandom } from '../../src/loadtest/statistics.ts'

export interface RowPlan {
  readonly seed: number
  readonly slots: number
  readonly transactionsPerSlot: number
  /** Blocks of the execution chain. */
  readonly blocks: number
  readonly tips: number
  readonly usage: number
  /** Left out: all. Tables of what a transaction contains come together, with `instructions`. */
  readonly only?: readonly TableName[]
}

/** 2026-01-05 00:00:00 UTC, a Monday. */
export const firstSecond = 1_767_571_200
export const firstSlot = 390_000_000
export const subscriptions = ['sub-alice', 'sub-bob']
const slotMs = 400
const errors = ['InsufficientFundsForFee', 'InstructionError(2, Custom(6001))', 'AccountInUse']
const rowsPerBatch = 20_000
const alphabet = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz'
const stages = ['Proposed', 'Voted', 'Finalized', 'Verified']

/** Batches in the order of the feeds, none larger than a writer would hand over. */
export function* makeRows(plan: RowPlan): Iterable<RowBatch> {
  const maker = new RowMaker(plan)
  for (let slot = 0; slot < plan.slots; slot++) {
    addSlot(maker, slot, plan.transactionsPerSlot)
    yield* maker.full()
  }
  for (let block = 0; block < plan.blocks; block++) {
    addBlock(maker, block)
    yield* maker.full()
  }
  for (let n = 0; n < plan.tips; n++) addTip(maker, n)
  for (let n = 0; n < plan.usage; n++) addUsage(maker, n)
  yield* maker.rest()
}

function addSlot(maker: RowMaker, index: number, transactions: number): void {
  const slot = firstSlot + index
  const block_time = firstSecond + Math.floor((index * slotMs) / 1000)
  maker.add('blocks', {
    slot,
    parent_slot: slot - 1,
    blockhash: maker.text(44),
    height: slot - 21_000_000,
    block_time,
    tx_count: transactions,
  })
  for (let idx = 0; idx < transactions; idx++) addTransaction(maker, { slot, idx, block_time })
}

function addTransaction(
  maker: RowMaker,
  at: { readonly slot: number; readonly idx: number; readonly block_time: number },
): void {
  const { slot, idx } = at
  const signature = maker.text(12).padEnd(88, `${slot}`)
  const fee_payer = maker.pick(maker.payers)
  const success = maker.next() < 0.94 ? 1 : 0
  maker.add('transactions', {
    ...at,
    signature,
    fee_payer,
    success,
    err: success === 1 ? '' : errors[maker.below(errors.length)]!,
    fee: BigInt(5_000 + (maker.next() < 0.4 ? Math.floor(maker.next() ** 6 * 5_000_000) : 0)),
    compute_units: 150 + Math.floor(maker.next() ** 2 * 400_000),
    version: maker.next() < 0.6 ? 0 : -1,
  })
  if (!maker.wants('instructions')) return
  const count = 1 + maker.below(3)
  for (let ix = 0; ix < count; ix++)
    for (let inner_ix = -1; inner_ix < (maker.next() < 0.3 ? 1 : 0); inner_ix++)
      maker.add('instructions', {
        ...at,
        ix,
        inner_ix,
        signature,
        program: maker.pick(maker.programs),
        accounts: Array.from({ length: 1 + maker.below(5) }, () => maker.pick(maker.payers)),
        data: maker.text(12),
      })
  for (let n = 0; n < 2; n++)
    maker.add('account_updates', {
      ...at,
      pubkey: n === 0 ? fee_payer : maker.pick(maker.payers),
      owner: maker.pick(maker.programs),
      // Beyond 2^53 now and then, where a careless engine would round.
      lamports:
        maker.next() < 0.01
          ? 18_446_744_073_709_551_000n + BigInt(idx % 500)
          : BigInt(maker.below(2 ** 40)),
      data_len: maker.below(4) * 165,
      write_version: slot * 10_000 + idx * 2 + n,
    })
  if (maker.next() < 0.25)
    maker.add('token_transfers', {
      ...at,
      ix: 0,
      inner_ix: maker.next() < 0.5 ? -1 : 0,
      signature,
      mint: maker.pick(maker.mints),
      source: maker.pick(maker.payers),
      destination: maker.pick(maker.payers),
      authority: fee_payer,
      amount: BigInt(maker.below(2 ** 40)) * 1_000n,
      decimals: [6, 9, 0][maker.below(3)]!,
    })
}

function addBlock(maker: RowMaker, index: number): void {
  const number = 1_000_000 + index
  const block_number = number
  const seq = 1 + index * 10
  const block_hash = `0x${maker.hex(64)}`
  const startNs =
    BigInt(firstSecond) * 1_000_000_000n +
    BigInt(index) * 400_000_000n +
    BigInt(maker.below(999_999))
  const txns = 1 + maker.below(300)
  maker.add('execution_blocks', {
    number,
    block_hash,
    eth_hash: `0x${maker.hex(64)}`,
    tx_count: txns,
    gas_used: 21_000 * txns + maker.below(1_000_000),
    started_at: startNs,
  })
  maker.add('tps', { seq, block_number, tps: txns * 2 + maker.below(50), at: startNs })
  const unique = 50 + maker.below(2_000)
  const contended = maker.below(unique)
  maker.add('contention', {
    seq: seq + 1,
    block_number,
    block_wall_time_ns: 40_000_000 + maker.below(200_000_000),
    total_tx_time_ns: 60_000_000 + maker.below(400_000_000),
    parallel_efficiency_pct: Math.round(maker.next() * 100_000) / 1_000,
    total_unique_slots: unique,
    contended_slot_count: contended,
    contention_ratio: Math.round((contended / unique) * 1_048_576) / 1_048_576,
    total_txn_count: txns,
    written_contended_slot_count: Math.floor(contended / 2),
    critical_path_txn_count: 1 + maker.below(txns),
    block_hash,
    at: startNs,
  })
  addLists(maker, { seq, block_number, block_hash, startNs })
}

function addLists(
  maker: RowMaker,
  at: {
    readonly seq: number
    readonly block_number: number
    readonly block_hash: string
    readonly startNs: bigint
  },
): void {
  const { seq, block_number, block_hash, startNs } = at
  for (let rank = 1; rank <= 5; rank++) {
    const address = maker.pick(maker.contracts)
    const slot = `0x${maker.hex(64)}`
    const total_slots = 4 * (1 + maker.below(64))
    const own = { seq: seq + 1, block_number, rank, address, at: startNs }
    maker.add('contended_slots', {
      ...own,
      slot,
      txn_count: 100 - rank * 7,
      access_count: 900 - rank * 31,
    })
    maker.add('contended_contracts', {
      ...own,
      total_slots,
      contended_slots: total_slots / 4,
      total_accesses: total_slots * 3,
      contention_score: 0.25,
    })
    maker.add('contract_edges', {
      ...own,
      contract_a: address,
      contract_b: maker.pick(maker.contracts),
      shared_txn_count: 60 - rank,
    })
    for (const kind of ['account', 'storage'])
      maker.add('top_accesses', {
        ...own,
        seq: seq + 2,
        kind,
        slot: kind === 'storage' ? slot : '',
        count: 5_000 - rank * 100 + maker.below(90),
        error: maker.below(20),
      })
  }
  for (const [step, to_stage] of stages.entries())
    maker.add('block_lifecycle', {
      seq: seq + 3 + step,
      block_number,
      block_hash,
      from_stage: step === 0 ? '' : stages[step - 1]!,
      to_stage,
      age_ms: step * 400 + maker.below(64) / 64,
      at: startNs + BigInt(step) * 400_000_000n,
    })
}

function addTip(maker: RowMaker, n: number): void {
  const hasLanded = maker.next() < 0.8
  maker.add('tips', {
    received_at: firstSecond * 1000 + n * 137,
    signature: maker.text(88),
    fee_payer: maker.pick(maker.payers),
    tip_account: maker.payers[n % 8]!,
    lamports: BigInt(1_000_000 + maker.below(9_000_000)),
    outcome: hasLanded ? 'landed' : 'rejected',
    reason: hasLanded ? '' : 'TIP_TOO_LOW',
    landed_slot: hasLanded ? firstSlot + n : 0,
  })
}

function addUsage(maker: RowMaker, n: number): void {
  maker.add('usage', {
    subscription: subscriptions[n % 2]!,
    at: firstSecond * 1000 + n * 1_009,
    query_id: `q-${n}`,
    elapsed_ms: maker.below(4_000) / 8,
    rows: maker.below(10_000),
    bytes: maker.below(1_000_000),
    code: n % 7 === 0 ? 62 : 0,
  })
}

/** Gathers rows by table, and all the random choices. */
class RowMaker extends SeededRandom {
  readonly #only: ReadonlySet<TableName> | null
  readonly #columns = new Map<TableName, Cell[][]>()
  readonly payers: readonly string[]
  readonly programs: readonly string[]
  readonly mints: readonly string[]
  readonly contracts: readonly string[]

  constructor({ seed, only }: { seed: number; only?: readonly TableName[] | undefined }) {
    super(seed)
    this.#only = only === undefined ? null : new Set(only)
    this.payers = Array.from({ length: 5_000 }, () => this.text(44))
    this.programs = Array.from({ length: 24 }, () => this.text(43))
    this.mints = Array.from({ length: 60 }, () => this.text(44))
    this.contracts = Array.from({ length: 80 }, () => `0x${this.hex(40)}`)
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

  /** By column name; the table defines which and in what order. */
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
