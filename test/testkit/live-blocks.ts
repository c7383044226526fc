// Deterministic blocks for the live page: frames with the shapes of the real pipeline and figures
// that vary as recorded ones do. Appended to an event log by hand.
import type { EventLog } from '../../src/streams/log/log.ts'
import { FakeExecution } from './fake-execution.ts'

export const firstBlock = 4_486_931_000
const contracts = 24
const stages = ['Proposed', 'Voted', 'Finalized', 'Verified'] as const

export class LiveBlocks extends FakeExecution {
  readonly #events: EventLog
  readonly #records = new Map<string, Record<string, unknown>>()
  #number = firstBlock
  #newest = 0

  constructor(events: EventLog, clock: { monotonicMs(): number }) {
    super(events, clock)
    this.#events = events
  }

  get newest(): number {
    return this.#newest
  }

  /** The next blocks, whole. */
  add(count = 1): void {
    for (let made = 0; made < count; made++) this.#block(this.#number++)
  }

  /** A block with so few transactions that nothing can be said about it. */
  addSmall(txns: number): void {
    const number = this.#number++
    this.#append('TPS', txns)
    this.#move(number, 'Proposed')
    this.#append('ContentionData', {
      ...contention(number),
      total_txn_count: txns,
      parallel_efficiency_pct: 78.6,
    })
    this.#newest = number
  }

  /** The source moves on, but nobody analyses these blocks. */
  skip(count: number): void {
    this.#number += count
  }

  lose(from: number, to: number): void {
    this.skip(1)
    this.gap(from, to)
  }

  /** A second proposal at the newest height, and the rejection of the first. */
  compete(): void {
    const number = this.#newest
    this.#append('ContentionData', { ...contention(number), block_hash: hash(number, 2) })
    this.#move(number, 'Proposed', 2)
    this.#move(number, 'Rejected')
  }

  override latestBlock(): number {
    return this.#newest
  }

  override lifecycles(): Record<string, unknown>[] {
    return [...this.#records.values()].slice(-128)
  }

  #block(number: number): void {
    this.touch()
    this.#append('TPS', 300 + wave(number, 250))
    this.#move(number, 'Proposed')
    for (let back = 1; back < 4; back++)
      if (number - back >= firstBlock && this.#records.has(hash(number - back)))
        this.#move(number - back, stages[back]!)
    this.#append('TopAccesses', top(number))
    this.#append('ContentionData', contention(number))
    this.#newest = number
  }

  #move(number: number, stage: (typeof stages)[number] | 'Rejected', proposal = 1): void {
    const index = stages.indexOf(stage as 'Voted')
    const age = stage === 'Rejected' ? 620 : index * (380 + wave(number, 60))
    const from = index > 0 ? { from_stage: stages[index - 1], time_in_previous_stage_ms: 400 } : {}
    const id = hash(number, proposal)
    const move = {
      block_hash: id,
      block_number: number,
      ...from,
      to_stage: stage,
      block_age_ms: age,
      txn_count: transactions(number),
      at_ms: 1_700_000_000_000 + number,
    }
    const known = this.#records.get(id)
    const timings = {
      ...(known?.stage_timings_ms as object),
      ...(index === 0 ? {} : { [stage]: age }),
    }
    this.#records.set(id, {
      ...move,
      current_stage: stage,
      stage_timings_ms: timings,
      total_age_ms: age,
    })
    this.#append('Lifecycle', move)
  }

  #append(kind: Parameters<EventLog['append']>[0], payload: unknown): void {
    this.#events.append(kind, Buffer.from(JSON.stringify(payload)))
  }
}

/** A figure from 0 to `most` that depends on the block alone. */
function wave(number: number, most: number): number {
  const mixed = Math.imul(number ^ 0x9e3779b9, 0x85ebca6b) >>> 8
  return mixed % (most + 1)
}

const hex = (value: number, width: number) => `0x${value.toString(16).padStart(width, '0')}`
const hash = (number: number, proposal = 1) => hex(number * 16 + proposal, 64)
const address = (index: number) =>
  `0x${hex(0xa11ce + index * 7919, 8)
    .slice(2)
    .repeat(5)}`
const slot = (index: number) => hex(index < 4 ? index : 0x51ab0000 + index * 65537, 64)
const transactions = (number: number) => (number % 37 === 0 ? 0 : 80 + wave(number, 240))

function contention(number: number): Record<string, unknown> {
  const txns = transactions(number)
  const contended = txns === 0 ? 0 : 20 + wave(number + 1, 90)
  const loss = number % 41 === 5 ? 18 : number % 67 === 9 ? 45 : 0.3 + wave(number + 2, 300) / 100
  const total = txns === 0 ? 0 : txns * 21_000_000
  const efficiency = txns === 0 ? 0 : 100 - loss
  return {
    block_number: number,
    block_hash: hash(number),
    at_ms: 1_700_000_000_000 + number,
    block_wall_time_ns: Math.round((total * loss) / 100),
    total_tx_time_ns: total,
    parallel_efficiency_pct: efficiency,
    total_unique_slots: contended * 9,
    contended_slot_count: contended,
    contention_ratio: txns === 0 ? 0 : 1 / 9,
    total_txn_count: txns,
    written_contended_slot_count: Math.floor(contended * 0.6),
    critical_path_txn_count: Math.min(txns, 4 + wave(number + 3, 26)),
    top_contended_slots: txns === 0 ? [] : slotsOf(number),
    top_contended_contracts: txns === 0 ? [] : contractsOf(number),
    contract_edges: txns === 0 ? [] : edgesOf(number),
  }
}

function slotsOf(number: number): unknown[] {
  return Array.from({ length: 16 }, (_, index) => {
    const which = index < 11 ? index : 11 + wave(number + index, 30)
    const txns = Math.max(2, 40 - index * 2 - wave(number + which, 12))
    return {
      address: address(which % contracts),
      slot: slot(which),
      txn_count: txns,
      access_count: txns * 3,
    }
  })
}

function contractsOf(number: number): unknown[] {
  return Array.from({ length: 10 }, (_, index) => {
    const which = index < 6 ? index : 6 + wave(number + index, contracts - 7)
    const slots = 40 + wave(number + which, 60)
    const contended = Math.max(1, 26 - index * 2 - wave(number + which, 5))
    return {
      address: address(which),
      total_slots: slots,
      contended_slots: contended,
      total_accesses: slots * 4,
      contention_score: contended / slots,
    }
  })
}

function edgesOf(number: number): unknown[] {
  const pairs = Array.from({ length: 9 }, (_, index) => [
    index % 7,
    index < 5 ? index + 1 : 7 + wave(number + index, contracts - 8),
  ])
  const known = pairs.filter(([a, b]) => a !== b)
  return known.map(([a, b], index) => {
    const [first, second] = [address(a!), address(b!)].sort()
    return { contract_a: first, contract_b: second, shared_txn_count: Math.max(1, 22 - index * 2) }
  })
}

function top(number: number): unknown {
  const age = number % 750
  const rows = (salt: number) =>
    Array.from({ length: 10 }, (_, index) => ({
      count: Math.round((10 - index) * (40 + age) * 1.7 + wave(number + salt + index, 9)),
      error: index * 7 + salt,
      which: (index + (number % 50 === 0 ? 1 : 0)) % 10,
    })).sort((a, b) => b.count - a.count)
  return {
    account: rows(1).map(({ count, error, which }) => ({ key: address(which), count, error })),
    storage: rows(2).map(({ count, error, which }) => ({
      key: [address(which), slot(which)],
      count,
      error,
    })),
  }
}
