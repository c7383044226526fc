// A fake of the execution pipeline: feeds an event log by hand and implements ExecutionView.
// Shapes are those of the real pipeline; numbers are made up.
import type { EventLog } from '../../src/streams/log/log.ts'
import type { BlockText, ExecutionBlock, ExecutionView } from '../../src/upstream/ports.ts'

/** A clock that only a test advances. */
export class HandClock {
  #ms: number
  constructor(startMs = 1_000_000) {
    this.#ms = startMs
  }
  nowMs(): number {
    return 1_700_000_000_000 + this.#ms
  }
  monotonicMs(): number {
    return this.#ms
  }
  advance(ms: number): void {
    this.#ms += ms
  }
}

/** Reserves sequence numbers like the registry does. */
export function handOutSeqs(start = 0): (count: number) => number {
  let next = start
  return (count) => {
    const first = next
    next += count
    return first
  }
}

export class FakeExecution implements ExecutionView {
  readonly #log: EventLog
  readonly #clock: { monotonicMs(): number }
  readonly #blocks = new Map<number, ExecutionBlock>()
  #lastEventMs: number
  #latest = 0
  #ringSeqno = 0

  constructor(log: EventLog, clock: { monotonicMs(): number }) {
    this.#log = log
    this.#clock = clock
    this.#lastEventMs = clock.monotonicMs()
  }

  /** An event that makes no frame. */
  touch(): void {
    this.#lastEventMs = this.#clock.monotonicMs()
    this.#ringSeqno += 1
  }

  block(which: number | 'latest' | 'safe' | 'finalized' | 'earliest'): ExecutionBlock | null {
    if (typeof which === 'number') return this.#blocks.get(which) ?? null
    const first = [...this.#blocks.keys()][0] ?? 0
    return this.#blocks.get(which === 'earliest' ? first : this.#latest) ?? null
  }

  /** One whole block: TPS, Lifecycle (Proposed), TopAccesses, ContentionData, then older moves. */
  run(number: number, options: { padBytes?: number; textBytes?: number } = {}): void {
    this.touch()
    this.#ringSeqno += 100
    this.#append('TPS', 400 + (number % 100))
    this.#append('Lifecycle', move(number, 'Proposed'))
    this.#append('TopAccesses', {
      account: [{ key: address(number), count: 12, error: 0 }],
      storage: [{ key: [address(number), hash(number)], count: 5, error: 1 }],
    })
    this.#append('ContentionData', { ...contentionOf(number), ...pad(options.padBytes) })
    if (number > 1) this.#append('Lifecycle', move(number - 1, 'Voted'))
    if (number > 2) this.#append('Lifecycle', move(number - 2, 'Finalized'))
    if (number > 3) this.#append('Lifecycle', move(number - 3, 'Verified'))
    this.#latest = number
    this.#blocks.set(number, blockOf(number, options.textBytes ?? 0))
    if (this.#blocks.size > 128) this.#blocks.delete(number - 128)
  }

  gap(from: number, to: number): void {
    this.touch()
    this.#append('Gap', { from, to, at_ms: atMs(this.#latest) })
  }

  lastEventAgeMs(): number {
    return this.#clock.monotonicMs() - this.#lastEventMs
  }
  ringSeqno(): number {
    return this.#ringSeqno
  }
  latestBlock(): number {
    return this.#latest
  }
  lifecycles(): Record<string, unknown>[] {
    return [...this.#blocks.keys()].map(recordOf)
  }
  lifecycle(number: number): Record<string, unknown> | null {
    return this.#blocks.has(number) ? recordOf(number) : null
  }
  chainId(): bigint {
    return 20143n
  }

  #append(kind: Parameters<EventLog['append']>[0], payload: unknown): void {
    this.#log.append(kind, Buffer.from(JSON.stringify(payload)))
  }
}

const hex = (value: number, width: number): string => `0x${value.toString(16).padStart(width, '0')}`
const address = (n: number): string => hex(n, 40)
const hash = (n: number): string => hex(n, 64)
/** By the source's clock: 400 ms per block. */
const atMs = (number: number): number => 1_756_499_174_000 + number * 400
const pad = (bytes: number | undefined): object =>
  bytes === undefined ? {} : { pad: 'x'.repeat(bytes) }

const stages = ['Proposed', 'Voted', 'Finalized', 'Verified']

function move(number: number, stage: string): Record<string, unknown> {
  const index = stages.indexOf(stage)
  const before =
    index === 0 ? {} : { from_stage: stages[index - 1], time_in_previous_stage_ms: 400.5 }
  return {
    block_hash: hash(number),
    block_number: number,
    ...before,
    to_stage: stage,
    block_age_ms: index * 400.5,
    txn_count: 138,
    gas_used: 12841454,
    at_ms: atMs(number + index),
  }
}

function recordOf(number: number): Record<string, unknown> {
  return {
    ...move(number, 'Voted'),
    current_stage: 'Voted',
    eth_block_hash: hash(number + 1_000_000),
    stage_timings_ms: { Voted: 400.5 },
    execution_time_ms: 69.1,
    total_age_ms: 400.5,
  }
}

export function contentionOf(number: number): Record<string, unknown> {
  return {
    block_hash: hash(number),
    at_ms: atMs(number),
    block_number: number,
    block_wall_time_ns: 69089655,
    total_tx_time_ns: 4800877217,
    parallel_efficiency_pct: 98.56,
    total_unique_slots: 954,
    contended_slot_count: 30,
    contention_ratio: 0.0314,
    total_txn_count: 138,
    written_contended_slot_count: 11,
    critical_path_txn_count: 9,
    top_contended_slots: [{ address: address(1), slot: hash(2), txn_count: 16, access_count: 16 }],
    top_contended_contracts: [
      {
        address: address(1),
        total_slots: 40,
        contended_slots: 9,
        total_accesses: 77,
        contention_score: 0.225,
      },
    ],
    contract_edges: [{ contract_a: address(1), contract_b: address(2), shared_txn_count: 9 }],
  }
}

function blockOf(number: number, textBytes: number): ExecutionBlock {
  const header = {
    number: `0x${number.toString(16)}`,
    hash: hash(number + 1_000_000),
    parentHash: hash(number - 1),
    sha3Uncles: hash(1),
    miner: address(2),
    stateRoot: hash(3),
    transactionsRoot: hash(4),
    receiptsRoot: hash(5),
    logsBloom: hex(0, 512),
    difficulty: '0x0',
    gasLimit: '0x1c9c380',
    gasUsed: '0xc3f1ee',
    timestamp: '0x64',
    extraData: '0x',
    mixHash: hash(6),
    nonce: '0x0000000000000000',
    baseFeePerGas: '0x7',
    uncles: [],
  }
  return {
    number,
    blockHash: hash(number),
    ethHash: hash(number + 1_000_000),
    text: (full) => {
      const one = full ? { hash: hash(7), nonce: '0x1' } : hash(7)
      const count = Math.max(1, Math.ceil(textBytes / JSON.stringify(one).length))
      return textOf({ ...header, transactions: Array(count).fill(one) })
    },
  }
}

/** A text in pieces like those of the real pipeline. */
function textOf(value: unknown): BlockText {
  const bytes = Buffer.from(JSON.stringify(value))
  const pieceBytes = 32 * 1024
  return {
    estimatedBytes: bytes.length,
    piece: (index) => {
      const from = index * pieceBytes
      return from < bytes.length ? bytes.subarray(from, from + pieceBytes) : null
    },
  }
}
