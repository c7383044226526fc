// Keeps the frames that this gateway's own source produced, to append what the shared log lacks
// after a take-over or a lost answer.

import { keyOf } from './event-frame.ts'
import type { NewFrame } from './log.ts'

/** Blocks that a gateway without the lease keeps: four minutes of a chain. */
const blocksKept = 600
const bytesMax = 64 * 1024 * 1024
/** Blocks by which stages follow the head. */
const nearBlocks = 16
/** Keys of the log's last frames: more than `blocksKept` blocks have. */
export const keysMax = 12_000

export class RecentFrames {
  #frames: NewFrame[] = []
  #bytes = 0
  /** Keys of the shared log's newest frames, oldest first. */
  readonly #inLog = new Set<string>()
  #lastBlockInLog: number | null = null

  /** The source produced a frame. */
  add(frame: NewFrame): void {
    this.#frames.push(frame)
    this.#bytes += frame.payload.length
    const newest = frame.facts?.blockNumber ?? 0
    while (this.#bytes > bytesMax || this.#isOld(this.#frames[0], newest))
      this.#bytes -= this.#frames.shift()!.payload.length
  }

  /** The shared log has a frame. */
  seen(frame: NewFrame): void {
    const key = keyOf(frame)
    if (key === null) return
    this.#lastBlockInLog = Math.max(this.#lastBlockInLog ?? 0, frame.facts!.blockNumber)
    this.#inLog.delete(key)
    this.#inLog.add(key)
    const [oldest] = this.#inLog.size > keysMax ? this.#inLog : []
    if (oldest !== undefined) this.#inLog.delete(oldest)
  }

  /** Whether the shared log has this event already, from another source or an earlier append. */
  isInLog(frame: NewFrame): boolean {
    const key = keyOf(frame)
    return key !== null && this.#inLog.has(key)
  }

  /** The shared log begins anew. */
  clearLog(): void {
    this.#inLog.clear()
    this.#lastBlockInLog = null
  }

  /**
   * What the log lacks, in this source's order, after a Gap where blocks are in neither. Frames
   * without a key tell of this source alone: the log's former source had its own.
   */
  missing(sinceMs: number): NewFrame[] {
    const known = this.#frames.filter((frame) => keyOf(frame) !== null)
    const last = this.#lastBlockInLog
    if (last === null) return known
    const overlap = known.findIndex((frame) => this.isInLog(frame))
    const missing = known.filter(
      (frame, index) => index > overlap && !this.isInLog(frame) && isNear(frame, last),
    )
    if (overlap >= 0) return missing
    // This source joined later than the log's last frame, or follows another chain.
    const later = missing.filter(({ facts }) => facts!.blockNumber > last)
    const first = later[0]?.facts?.blockNumber
    if (first === undefined || first <= last + 1) return later
    return [gapOf({ fromBlock: last + 1, toBlock: first - 1, sinceMs }), ...later]
  }

  #isOld(frame: NewFrame | undefined, newest: number): boolean {
    return frame !== undefined && (frame.facts?.blockNumber ?? newest) < newest - blocksKept
  }
}

/** Sources differ in the order of a few blocks; what is older would follow much newer frames. */
function isNear({ facts }: NewFrame, last: number): boolean {
  return facts!.blockNumber > last - nearBlocks
}

/** Source numbers are those of a source that is gone: the blocks say what is missing. */
function gapOf(gap: { fromBlock: number; toBlock: number; sinceMs: number }): NewFrame {
  const payload = { from: 0, to: 0, from_block: gap.fromBlock, to_block: gap.toBlock }
  const text = Buffer.from(JSON.stringify(payload))
  return { kind: 'Gap', payload: text, sinceMs: gap.sinceMs, facts: null }
}
