// The analysis pipeline without threads: feed, control ring and analyst in one, for tests.
import { readFileSync } from 'node:fs'
import { RingReader } from '../../src/base/rings/ring.ts'
import { blockStart, EventType } from '../../src/chain/evm/event-payload.ts'
import { readU64 } from '../../src/chain/evm/words.ts'
import { BlockAnalyst, type BlockResult, SyncTable } from '../../src/streams/analysis/block-jobs.ts'
import type { Control, ControlEvent } from '../../src/streams/analysis/feed.ts'
import { EventFeed, parseControl } from '../../src/streams/analysis/feed.ts'
import { type AnalysisMemory, createMemory } from '../../src/streams/analysis/memory.ts'

const file = new URL('../../dist/src/streams/analysis/analysis.wasm', import.meta.url)
export const analysisModule = (): WebAssembly.Module => new WebAssembly.Module(readFileSync(file))

export interface AnalysedBlock {
  readonly number: number
  readonly txnCount: number
  readonly result: BlockResult
  readonly contention: Record<string, unknown>
  readonly top: Record<string, unknown>
}

export class Bench {
  readonly memory: AnalysisMemory
  readonly feed: EventFeed
  readonly syncTable: SyncTable
  readonly controls: Control[] = []
  readonly #reader: RingReader
  readonly #analyst: BlockAnalyst
  #ticket = 0
  #timestampSecs = 0
  readonly #fixedSecs: number | undefined
  #number = 0

  constructor(
    options: { eventRingBytes?: number; counters?: number; timestampSecs?: number } = {},
  ) {
    this.#fixedSecs = options.timestampSecs
    this.memory = createMemory(analysisModule(), {
      eventRingBytes: options.eventRingBytes ?? 64 * 1024 * 1024,
      workers: 1,
      ...(options.counters === undefined ? {} : { counters: options.counters }),
    })
    this.feed = new EventFeed(this.memory, {
      isLossless: false,
      nowMs: () => 1,
      isStopping: () => false,
    })
    this.syncTable = new SyncTable(this.memory)
    this.#reader = new RingReader(this.memory.controlRing, { from: 'oldest' })
    this.#analyst = new BlockAnalyst(this.memory)
  }

  /** Reads the control ring and analyses every block that ended. */
  drain(): AnalysedBlock[] {
    const blocks: AnalysedBlock[] = []
    while (this.#reader.poll() > 0) {
      while (this.#reader.next()) {
        const { bytes, offset, length, tag } = this.#reader
        const control = parseControl(tag, bytes.slice(offset, offset + length))
        if (control === null) throw new Error('a control message that cannot be read')
        this.controls.push(control)
        if (control.kind === 'event') this.#take(control, blocks)
      }
      this.#reader.commit()
    }
    return blocks
  }

  analyse(control: ControlEvent): BlockResult {
    return this.#analyst.analyse({
      ticket: this.#ticket++,
      round: 0,
      from: control.from,
      to: control.to,
      number: this.#number,
      wallNs: control.wallNs,
      timestampSecs: this.#fixedSecs ?? this.#timestampSecs,
    })
  }

  #take(control: ControlEvent, blocks: AnalysedBlock[]): void {
    if (control.type === EventType.BlockStart) {
      this.#number = readU64(control.payload, blockStart.blockNumber)
      this.#timestampSecs = readU64(control.payload, blockStart.timestamp)
    }
    if (control.type !== EventType.BlockEnd || control.status !== 1) return
    const result = this.analyse(control)
    blocks.push({
      number: this.#number,
      txnCount: control.txnCount,
      result,
      contention: result.outcome === 'done' ? parse(result.contention) : {},
      top: result.outcome === 'done' ? parse(result.top) : {},
    })
  }
}

export function parse(bytes: Uint8Array): Record<string, unknown> {
  return JSON.parse(Buffer.from(bytes).toString('utf8')) as Record<string, unknown>
}
