// When replays run: they share a thread with the streams that are live.
//
//   ── turn, ¼ ms ──┤ rest, ¾ to 8 ms / readers ├── turn, ¼ ms ──┤ rest ├──
//      reader a, b     live streams alone             reader c, a
//
// A turn serves readers in the order in which they asked; who wants more asks again. However many
// there are, a live stream waits for one turn. A reader that is much faster than its chain has a
// 33rd of the thread, one that is not up to a quarter. n of them have n times as much for each
// rest: were the share fixed, many readers would replay more slowly than the chain goes on, and
// none would ever be live.
import type { Clock } from '../../base/clock.ts'
import type { SlotTime } from '../../base/slot-time.ts'

/** Does a part of a replay; returns once `isOver` says so, or earlier. */
export type ReplayStep = (isOver: () => boolean) => void

export interface ReplayTurns {
  /** Calls it once, later. A reader without a pace is one that is not fast. */
  ask(step: ReplayStep, pace?: ReplayPace): void
}

/** A live update's own batch takes about as long. */
const turnMs = 0.25
/** Of a turn of one reader. Mostly what it leaves to be collected is what delays others. */
const [restShareMin, restShareMax] = [3, 32]
/** How many times as fast as its chain a reader is to be before it rests for longer. */
const paceWanted = 15
/** A few slots: a shorter time has too few to tell, but for one that is slow from the start. */
const [firstWindowMs, paceWindowMs] = [100, 1_000]
/** After a turn that waited for a core, or for the whole process to go on. */
const restMsMax = 20
/** Timers are no finer: a shorter rest is added to the next one. */
const timerMs = 1

/** Of the chain that is replayed: the hub. */
export interface ReplayedChain {
  readonly slotTime: Pick<SlotTime, 'ms'>
  readonly newestSlot: number | null
}

/** How fast a reader is against its chain, and so how long it rests. */
export class ReplayPace {
  readonly #chain: ReplayedChain
  #slot = -1
  /** Short replays disturb no one. */
  #restShare = restShareMax
  #windowMs = firstWindowMs
  #window: { readonly sinceMs: number; readonly slot: number; readonly newest: number } | null =
    null

  constructor(chain: ReplayedChain) {
    this.#chain = chain
  }

  /** An update of that slot was replayed. */
  passed(slot: number): void {
    if (slot > this.#slot) this.#slot = slot
  }

  /** How many times as long as its turns it rests. */
  restShare(nowMs: number): number {
    const newest = this.#chain.newestSlot
    if (this.#slot < 0 || newest === null) return this.#restShare
    const here = { sinceMs: nowMs, slot: this.#slot, newest }
    this.#window ??= here
    const { sinceMs, slot, newest: newestBefore } = this.#window
    if (nowMs - sinceMs < this.#windowMs) return this.#restShare
    // A chain that is late catches up: its slots count as those that were to come.
    const published = Math.max(newest - newestBefore, (nowMs - sinceMs) / this.#chain.slotTime.ms)
    this.#restShare = nextRestShare(this.#restShare, (here.slot - slot) / published)
    this.#window = here
    this.#windowMs = paceWindowMs
    return this.#restShare
  }
}

/** `pace`: how many times as fast as the chain it was with the rests before. */
export function nextRestShare(before: number, pace: number): number {
  const wanted = (before * pace) / paceWanted
  return Math.min(restShareMax, Math.max(restShareMin, wanted))
}

/** Without rests: for hubs that nobody reads while others replay. */
export const ownTurns: ReplayTurns = {
  ask(step) {
    setImmediate(() => {
      const endMs = performance.now() + turnMs
      step(() => performance.now() >= endMs)
    })
  },
}

/** How a turn is called later; a test has its own. */
type Later = (run: () => void, ms: number) => void

const later: Later = (run, ms) => {
  if (ms < timerMs) setImmediate(run)
  else setTimeout(run, ms)
}

interface Asking {
  readonly step: ReplayStep
  readonly pace: ReplayPace | undefined
}

/** The turns of all replays of a thread. */
export class SharedTurns implements ReplayTurns {
  readonly #clock: Pick<Clock, 'monotonicMs'>
  readonly #later: Later
  #asking: Asking[] = []
  #isScheduled = false
  /** When the rests after all turns so far are over. */
  #restedMs = 0

  constructor(clock: Pick<Clock, 'monotonicMs'>, run: Later = later) {
    this.#clock = clock
    this.#later = run
  }

  ask(step: ReplayStep, pace?: ReplayPace): void {
    this.#asking.push({ step, pace })
    this.#schedule()
  }

  #schedule(): void {
    if (this.#isScheduled) return
    this.#isScheduled = true
    this.#later(this.#turn, Math.max(0, this.#restedMs - this.#clock.monotonicMs()))
  }

  readonly #turn = (): void => {
    const startMs = this.#clock.monotonicMs()
    const isOver = () => this.#clock.monotonicMs() >= startMs + turnMs
    const asking = this.#asking
    this.#asking = []
    let served = 0
    try {
      while (served < asking.length && !(served > 0 && isOver())) asking[served++]!.step(isOver)
    } finally {
      // Those that were not served are before those that ask again.
      this.#asking = [...asking.slice(served), ...this.#asking]
      const endMs = this.#clock.monotonicMs()
      // As long as the one that can rest least.
      const shareOf = ({ pace }: Asking) => pace?.restShare(endMs) ?? restShareMin
      const share = asking.reduce((least, one) => Math.min(least, shareOf(one)), restShareMax)
      const restMs = Math.min(((endMs - startMs) * share) / asking.length, restMsMax)
      this.#restedMs = Math.max(startMs, this.#restedMs) + (endMs - startMs) + restMs
      this.#isScheduled = false
      if (this.#asking.length > 0) this.#schedule()
    }
  }
}
