// Readers of a hub that begin in the past and read slowly, or stop: what they keep in memory is
// bounded, whoever stops is ended, and who is slow loses and repeats nothing.
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import type { Commitment } from '../../src/base/commitment.ts'
import type { SolanaUpdate } from '../../src/chain/solana/updates.ts'
import type { Run } from '../../src/streams/geyser/frame.ts'
import { SlabPool } from '../../src/streams/geyser/frame.ts'
import { aheadBytes, Replayer, type ReplayingStream } from '../../src/streams/geyser/replayer.ts'
import type { ClosedEra } from '../../src/streams/hub/hub.ts'
import { FrameReader, filtersOfAll, type VoidStage } from '../testkit/void-readers.ts'
import { type Counts, check } from './world.ts'

setFlagsFromString('--expose-gc')
const collectGarbage: () => void = runInNewContext('gc')

/** A paused replay looks once a second whether its slots were evicted. */
const lostMsMax = 2_000

class PastReader implements ReplayingStream {
  readonly encoding = null
  readonly aheadMax = aheadBytes
  readonly isAhead = false
  readonly frames = new FrameReader()
  readonly fromSlot: number
  /** Steps until its socket has room once more; a reader that has stopped never has. */
  fullSteps: number
  isLost = false
  isLive = false
  readonly #stage: VoidStage
  readonly #filters
  readonly #replay
  readonly #replayer: Replayer
  #lostSinceMs: number | null = null

  constructor(
    stage: VoidStage,
    commitment: Commitment,
    { fromSlot, fullSteps }: { readonly fromSlot: number; readonly fullSteps: number },
  ) {
    this.#stage = stage
    this.fromSlot = fromSlot
    this.fullSteps = fullSteps
    this.#filters = filtersOfAll(commitment)
    this.#replay = stage.hub.replay(commitment, fromSlot)!
    const means = { pool: new SlabPool(), hub: stage.hub }
    this.#replayer = new Replayer(this.#replay, this.#filters, means, this)
  }

  get backlogBytes(): number {
    return this.fullSteps > 0 ? aheadBytes : 0
  }

  take(runs: readonly Run[]): void {
    this.frames.take(runs)
  }

  caughtUp(): void {
    this.isLive = true
    this.#stage.fanOut.join(this, this.#filters)
  }

  lostReplay(): void {
    this.isLost = true
  }

  step(nowMs: number): void {
    if (this.fullSteps > 0 && --this.fullSteps === 0 && !this.isLive) this.#replayer.drained()
    if (this.isLost || this.isLive || !this.#replay.isLost) return
    this.#lostSinceMs ??= nowMs
    check(nowMs - this.#lostSinceMs <= lostMsMax, 'a stalled reader of evicted slots is not ended')
  }
}

export class PastReaders {
  readonly all: PastReader[] = []
  readonly #stage: VoidStage
  readonly #slots: number
  readonly #eras: WeakRef<ClosedEra<SolanaUpdate>>[] = []

  /** The hub keeps so many slots. */
  constructor(stage: VoidStage, slots: number) {
    this.#stage = stage
    this.#slots = slots
    stage.hub.onClosed = (era) => void this.#eras.push(new WeakRef(era))
  }

  /** Begins at the oldest slot that is kept. */
  add(commitment: Commitment, fullSteps: number): void {
    const fromSlot = this.#stage.hub.oldestSlot
    if (fromSlot === null) return
    this.all.push(new PastReader(this.#stage, commitment, { fromSlot, fullSteps }))
  }

  step(nowMs: number): void {
    for (const reader of this.all) reader.step(nowMs)
  }

  /** Readers that reached the end of the log, with the slot that each began with. */
  live(): (readonly [fromSlot: number, FrameReader])[] {
    return this.all.filter(({ isLive }) => isLive).map(({ fromSlot, frames }) => [fromSlot, frames])
  }

  get counts(): Counts {
    const ended = this.all.filter(({ isLost }) => isLost).length
    return { ended, resumed: this.live().length }
  }

  /** Counts what is reachable in eras that the hub has evicted. */
  checkMemory(): void {
    collectGarbage()
    const { oldestSlot } = this.#stage.hub
    let evicted = 0
    let eras = 0
    for (const reference of this.#eras) {
      const era = reference.deref()
      if (era === undefined) continue
      const isKept = oldestSlot !== null && era.slot >= oldestSlot
      if (!isKept) for (const updates of era.updates) evicted += updates.length
      eras++
    }
    check(evicted === 0, `stalled readers keep ${evicted} updates of evicted slots in memory`)
    const most = this.#slots + this.all.length
    check(eras <= most, `${eras} slots are in memory; ${most} may be`)
  }
}
