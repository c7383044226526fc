// Embedded execution chain: a seeded source of Monad-format events at the pace of real blocks.
// Thread: source worker. Block numbers are the wall clock divided by the block time, so that they
// increase across restarts; block N is voted, finalized and verified one, two and three block times
// after its start. The same seed and clock produce the same bytes.
//
//   slot  |--N, executes----|--N+1-------------|--N+2-------------|--N+3 ...
//   stage                    N voted            N finalized        N verified
import { assert } from '../../../base/errors.ts'
import type { ExecutionSink, ExecutionSource } from '../../ports.ts'
import type { Pacer } from '../playback.ts'
import { BlockEvents } from './block-events.ts'
import { EventWriter, type StageName, writeStage } from './event-writer.ts'
import { fateOf, type Proposal, proposalOf, type Shape, TrafficPlan } from './traffic-plan.ts'

export interface GeneratorOptions {
  readonly seed: number
  /** Transactions per second on average. */
  readonly tps: number
  /** Exponent of the Zipf distribution of contract calls; 0 = uniform. */
  readonly skew: number
  readonly blockMs: number
  /** Share of blocks with a competing proposal. */
  readonly forkRate?: number
  /** Share of blocks whose first proposal is rejected. */
  readonly rejectRate?: number
}

const forkRateDefault = 1 / 200
const rejectRateDefault = 1 / 500
/** Every block whose number is a multiple of this is finalized without a vote. */
const voteMissingPeriod = 97
/** Events are delivered in slices of this length, as they would arrive from a live engine. */
const sliceMs = 20
/** With a longer lag than this, missed blocks are skipped. */
const lagBlocksMax = 5
const stages: readonly StageName[] = ['voted', 'finalized', 'verified']

interface DueStage {
  readonly stage: StageName
  readonly proposal: Proposal
  readonly dueMs: number
}

export class Generator implements ExecutionSource {
  readonly #shape: Shape
  readonly #traffic: TrafficPlan
  readonly #blocks: BlockEvents
  readonly #pacer: Pacer
  /** Pending stages by time; at most three per block within three block times. */
  readonly #due: DueStage[] = []
  /** Add to monotonic milliseconds to get wall time. */
  #wallOffsetMs = 0

  constructor(options: GeneratorOptions, pacer: Pacer) {
    const { seed, tps, skew, blockMs } = options
    assert(blockMs > 0 && tps >= 0, 'a generator makes blocks forward in time')
    this.#shape = {
      seed,
      blockMs,
      txnsPerBlock: (tps * blockMs) / 1000,
      forkRate: options.forkRate ?? forkRateDefault,
      rejectRate: options.rejectRate ?? rejectRateDefault,
    }
    this.#traffic = new TrafficPlan({ seed, skew })
    this.#blocks = new BlockEvents(this.#traffic)
    this.#pacer = pacer
  }

  async run(sink: ExecutionSink): Promise<void> {
    const { clock } = this.#pacer
    const { blockMs } = this.#shape
    const writer = new EventWriter(sink)
    let number = Math.floor(clock.nowMs() / blockMs)
    let startMs = clock.monotonicMs()
    this.#wallOffsetMs = clock.nowMs() - startMs
    while (!this.#pacer.isStopped) {
      await this.#slot(writer, number, startMs)
      number += 1
      startMs += blockMs
      const lagMs = clock.monotonicMs() - startMs
      // After a long sleep of the machine, missed blocks are skipped, the wall clock re-read.
      if (lagMs > lagBlocksMax * blockMs) {
        startMs += lagMs
        this.#wallOffsetMs = clock.nowMs() - clock.monotonicMs()
      }
    }
  }

  stop(): void {
    this.#pacer.stop()
  }

  /** All proposals at one number, each in its share of the block time. */
  async #slot(writer: EventWriter, number: number, startMs: number): Promise<void> {
    const fate = fateOf(this.#shape, number)
    for (let variant = 0; variant < fate.proposals; variant++) {
      const beginMs = startMs + (variant * this.#shape.blockMs) / fate.proposals
      await this.#pacer.until(beginMs)
      if (this.#pacer.isStopped) return
      const proposal = proposalOf(this.#shape, this.#traffic, {
        number,
        variant,
        startMs: beginMs + this.#wallOffsetMs,
      })
      if (variant === fate.winner) this.#schedule(proposal, beginMs)
      await this.#execute(writer, proposal, beginMs)
    }
  }

  async #execute(writer: EventWriter, proposal: Proposal, beginMs: number): Promise<void> {
    this.#blocks.begin(proposal)
    // Relative to the block's start: the sum with a time since 1970 would lose nanoseconds.
    let reachedNs = 0
    for (;;) {
      this.#emitDue(writer, beginMs + reachedNs / 1e6)
      writer.setTime(proposal.startMs)
      const isDone = this.#blocks.emitUntil(writer, reachedNs)
      writer.flush()
      if (isDone) return
      reachedNs = Math.min(proposal.wallNs, reachedNs + sliceMs * 1e6)
      await this.#pacer.until(beginMs + reachedNs / 1e6)
      if (this.#pacer.isStopped) return
    }
  }

  #schedule(proposal: Proposal, beginMs: number): void {
    for (const [index, stage] of stages.entries()) {
      if (stage === 'voted' && proposal.number % voteMissingPeriod === 0) continue
      this.#due.push({ stage, proposal, dueMs: beginMs + (index + 1) * this.#shape.blockMs })
    }
    this.#due.sort((a, b) => a.dueMs - b.dueMs || b.proposal.number - a.proposal.number)
  }

  #emitDue(writer: EventWriter, nowMs: number): void {
    for (let next = this.#due[0]; next !== undefined && next.dueMs <= nowMs; next = this.#due[0]) {
      writer.setTime(next.dueMs + this.#wallOffsetMs)
      writeStage(writer, next.stage, next.proposal)
      this.#due.shift()
    }
  }
}
