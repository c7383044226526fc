// Tracks the stage of each block from proposal to its final stage.
// Stages only move forward; skips are allowed; Verified and Rejected are final. The key is the
// consensus id, because several proposals may share a number.

/** Active blocks further below the head than this are evicted. */
export const activeDepthMax = 1000
/** Blocks in a final stage that are kept. */
export const finalMax = 128
/** Proposals tracked in all, however many share a number. */
const trackedMax = 4096

const rank: Readonly<Record<BlockStage, number>> = {
  Proposed: 0,
  Voted: 1,
  Finalized: 2,
  Verified: 3,
  Rejected: 4,
}

export class BlockStages {
  /** In the order in which proposals were first seen. */
  readonly #blocks = new Map<string, Tracked>()
  readonly #byNumber = new Map<number, Tracked[]>()
  /** Active proposals by the seqno of their BlockStart, which a BlockReject refers to. */
  readonly #byStart = new Map<number, Tracked>()
  readonly #final: Tracked[] = []
  #head = 0

  propose(
    proposal: Pick<Tracked, 'id' | 'number' | 'startSeqno' | 'timeNs' | 'txnCount'>,
  ): LifecycleMove[] {
    const known = this.#blocks.get(proposal.id)
    if (known !== undefined) this.#forget(known)
    const block: Tracked = { ...proposal, stage: 'Proposed', stageNs: proposal.timeNs, timings: {} }
    this.#blocks.set(block.id, block)
    const siblings = this.#byNumber.get(block.number)
    if (siblings === undefined) this.#byNumber.set(block.number, [block])
    else siblings.push(block)
    this.#byStart.set(block.startSeqno, block)
    const [oldest] = this.#blocks.size > trackedMax ? this.#blocks.values() : []
    if (oldest !== undefined) this.#forget(oldest)
    if (block.number > this.#head) {
      this.#head = block.number
      // Once per new height, over at most `trackedMax` blocks.
      for (const one of this.#blocks.values())
        if (!isFinal(one) && this.#head - one.number > activeDepthMax) this.#forget(one)
    }
    return [shapeOf(block, null, proposal.timeNs)]
  }

  /** BlockEnd adds the execution results; it is not a stage. */
  execute(
    id: string,
    result: { readonly ethHash: string; readonly gasUsed: number; readonly timeNs: bigint },
  ): void {
    const block = this.#blocks.get(id)
    if (block === undefined) return
    block.ethHash = result.ethHash
    block.gasUsed = result.gasUsed
    block.executedNs = result.timeNs
  }

  vote(id: string, timeNs: bigint): LifecycleMove[] {
    return this.#move(this.#blocks.get(id), 'Voted', timeNs)
  }

  /** Finalizes a proposal and rejects every other active proposal of its number. */
  finalize(id: string, timeNs: bigint): LifecycleMove[] {
    const block = this.#blocks.get(id)
    const moves = this.#move(block, 'Finalized', timeNs)
    return block === undefined ? moves : [...moves, ...this.#rejectOthers(block, timeNs)]
  }

  /** Verifies by number only: the finalized proposal, else the newest that is not rejected. */
  verify(number: number, timeNs: bigint): LifecycleMove[] {
    const block = this.#chosen(number)
    if (block === undefined || block.stage === 'Rejected') return []
    const moves = this.#move(block, 'Verified', timeNs)
    return [...moves, ...this.#rejectOthers(block, timeNs)]
  }

  reject(startSeqno: number, timeNs: bigint): LifecycleMove[] {
    return this.#move(this.#byStart.get(startSeqno), 'Rejected', timeNs)
  }

  /** Ascending by number, then first seen. */
  records(): LifecycleRecord[] {
    const blocks = [...this.#blocks.values()]
    // The sort is stable: proposals of one number stay in the order of first sight.
    return blocks.sort((a, b) => a.number - b.number).map(recordOf)
  }

  record(number: number): LifecycleRecord | null {
    const block = this.#chosen(number)
    return block === undefined ? null : recordOf(block)
  }

  /** The id that a number resolves to: finalized, else newest not rejected, else newest. */
  idOf(number: number): string | null {
    return this.#chosen(number)?.id ?? null
  }

  /** The stage of a proposal; null when it is not tracked. */
  stageOf(id: string): BlockStage | null {
    return this.#blocks.get(id)?.stage ?? null
  }

  #move(block: Tracked | undefined, to: BlockStage, timeNs: bigint): LifecycleMove[] {
    if (block === undefined || isFinal(block) || rank[to] <= rank[block.stage]) return []
    const from = { stage: block.stage, sinceNs: block.stageNs }
    block.stage = to
    block.stageNs = timeNs
    block.timings[to] = timeNs
    block.from = from
    const move = shapeOf(block, from, timeNs)
    if (isFinal(block)) this.#retire(block)
    return [move]
  }

  #rejectOthers(kept: Tracked, timeNs: bigint): LifecycleMove[] {
    if (kept.stage === 'Rejected') return []
    const siblings = [...(this.#byNumber.get(kept.number) ?? [])]
    return siblings
      .filter((block) => block !== kept && rank[block.stage] < rank.Finalized)
      .flatMap((block) => this.#move(block, 'Rejected', timeNs))
  }

  #chosen(number: number): Tracked | undefined {
    const proposals = this.#byNumber.get(number) ?? []
    return (
      proposals.findLast((block) => block.stage === 'Finalized' || block.stage === 'Verified') ??
      proposals.findLast((block) => block.stage !== 'Rejected') ??
      proposals.at(-1)
    )
  }

  #retire(block: Tracked): void {
    this.#byStart.delete(block.startSeqno)
    this.#final.push(block)
    const oldest = this.#final.length > finalMax ? this.#final.shift() : undefined
    if (oldest !== undefined) this.#drop(oldest)
  }

  #forget(block: Tracked): void {
    const index = this.#final.indexOf(block)
    if (index >= 0) this.#final.splice(index, 1)
    this.#drop(block)
  }

  #drop(block: Tracked): void {
    if (this.#blocks.get(block.id) === block) this.#blocks.delete(block.id)
    if (this.#byStart.get(block.startSeqno) === block) this.#byStart.delete(block.startSeqno)
    const siblings = this.#byNumber.get(block.number)
    const index = siblings?.indexOf(block) ?? -1
    if (siblings === undefined || index < 0) return
    siblings.splice(index, 1)
    if (siblings.length === 0) this.#byNumber.delete(block.number)
  }
}

function isFinal(block: Tracked): boolean {
  return block.stage === 'Verified' || block.stage === 'Rejected'
}

// Builds the two JSON forms of a block's lifecycle: a move on the stream, a record in REST.
// Absent values are left out; times are float ms between event timestamps, never
// below 0 (different threads of the node take them).

type BlockStage = 'Proposed' | 'Voted' | 'Finalized' | 'Verified' | 'Rejected'

/** State of one proposal. */
interface Tracked {
  readonly id: string
  readonly number: number
  readonly startSeqno: number
  /** When it was proposed. */
  readonly timeNs: bigint
  readonly txnCount: number
  stage: BlockStage
  /** When it entered its current stage. */
  stageNs: bigint
  readonly timings: Partial<Record<BlockStage, bigint>>
  /** Of the last move. */
  from?: NonNullable<From>
  ethHash?: string
  gasUsed?: number
  executedNs?: bigint
}

/** Payload of a Lifecycle frame; field names are wire names. */
export interface LifecycleMove {
  readonly block_hash: string
  readonly block_number: number
  readonly from_stage?: BlockStage
  readonly to_stage: BlockStage
  readonly time_in_previous_stage_ms?: number
  readonly block_age_ms: number
  readonly txn_count: number
  readonly gas_used?: number
  /** Time of the move by the source's clock: whole milliseconds since 1970. */
  readonly at_ms: number
}

export interface LifecycleRecord extends LifecycleMove {
  readonly current_stage: BlockStage
  readonly eth_block_hash?: string
  readonly stage_timings_ms: Readonly<Partial<Record<BlockStage, number>>>
  readonly execution_time_ms?: number
  readonly total_age_ms: number
}

type From = { readonly stage: BlockStage; readonly sinceNs: bigint } | null

/** Returns the fields of the last move and all other known fields. */
function recordOf(block: Tracked): LifecycleRecord {
  const timings: Partial<Record<BlockStage, number>> = {}
  for (const [stage, timeNs] of Object.entries(block.timings))
    timings[stage as BlockStage] = msBetween(block.timeNs, timeNs)
  return {
    ...shapeOf(block, block.from ?? null, block.stageNs),
    current_stage: block.stage,
    ...(block.ethHash === undefined ? {} : { eth_block_hash: block.ethHash }),
    stage_timings_ms: timings,
    ...(block.executedNs === undefined
      ? {}
      : { execution_time_ms: msBetween(block.timeNs, block.executedNs) }),
    total_age_ms: msBetween(block.timeNs, block.stageNs),
  }
}

function shapeOf(block: Tracked, from: From, timeNs: bigint): LifecycleMove {
  return {
    block_hash: block.id,
    block_number: block.number,
    ...(from === null ? {} : { from_stage: from.stage }),
    to_stage: block.stage,
    ...(from === null ? {} : { time_in_previous_stage_ms: msBetween(from.sinceNs, timeNs) }),
    block_age_ms: msBetween(block.timeNs, timeNs),
    txn_count: block.txnCount,
    ...(block.gasUsed === undefined ? {} : { gas_used: block.gasUsed }),
    at_ms: wallMs(timeNs),
  }
}

/** A time of the source's clock on the wire: whole milliseconds since 1970. */
export function wallMs(atNs: bigint): number {
  return Number(atNs / 1_000_000n)
}

function msBetween(startNs: bigint, endNs: bigint): number {
  return endNs <= startNs ? 0 : Number(endNs - startNs) / 1e6
}

// Computes transactions per second over the last 2.5 blocks.
// Limits: TPS window. At a BlockStart: n[-3] + n[-2] + floor(n[-1] / 2) over completed blocks, the
// newest halved; no clock is read.

const window = 3

export class Tps {
  /** Transactions of the last three blocks, oldest first; a missing block counts 0. */
  readonly #counts = new Array<number>(window).fill(0)
  #last: number | null = null

  /** The value at the start of block `number`; skipped numbers count as empty blocks. */
  start(number: number): number {
    if (this.#last !== null)
      for (let missing = 1; missing < number - this.#last && missing <= window; missing++)
        this.complete(0)
    this.#last = number
    const [third = 0, second = 0, newest = 0] = this.#counts
    return third + second + Math.floor(newest / 2)
  }

  /** Adds a completed block's transaction count; 0 for a block that was not seen whole. */
  complete(txnCount: number): void {
    this.#counts.shift()
    this.#counts.push(txnCount)
  }
}
