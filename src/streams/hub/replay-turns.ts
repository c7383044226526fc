// When replays run: they share a thread with the streams that are live.
//
//   ── turn, ¼ ms ──┤ rest, ¾ ms / readers ├── turn, ¼ ms ──┤ rest ├──
//      reader a, b     live streams alone      reader c, a
//
// A turn serves readers in the order in which they asked; who wants more asks again. However many
// there are, a live stream waits for one turn. One reader has a quarter of the thread, n of them
// n / (n + 3): were the share fixed, many readers would replay more slowly than the chain goes on,
// and none would ever be live.
import type { Clock } from '../../base/clock.ts'

/** Does a part of a replay; returns once `isOver` says so, or earlier. */
export type ReplayStep = (isOver: () => boolean) => void

export interface ReplayTurns {
  /** Calls it once, later. */
  ask(step: ReplayStep): void
}

/** A live update's own batch takes about as long. */
const turnMs = 0.25
/** Of a turn of one reader. Mostly what it leaves to be collected is what delays others. */
const restShare = 3
/** After a turn that waited for a core, or for the whole process to go on. */
const restMsMax = 20
/** Timers are no finer: a shorter rest is added to the next one. */
const timerMs = 1

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

/** The turns of all replays of a thread. */
export class SharedTurns implements ReplayTurns {
  readonly #clock: Pick<Clock, 'monotonicMs'>
  readonly #later: Later
  #asking: ReplayStep[] = []
  #isScheduled = false
  /** When the rests after all turns so far are over. */
  #restedMs = 0

  constructor(clock: Pick<Clock, 'monotonicMs'>, run: Later = later) {
    this.#clock = clock
    this.#later = run
  }

  ask(step: ReplayStep): void {
    this.#asking.push(step)
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
      while (served < asking.length && !(served > 0 && isOver())) asking[served++]!(isOver)
    } finally {
      // Those that were not served are before those that ask again.
      this.#asking = [...asking.slice(served), ...this.#asking]
      const endMs = this.#clock.monotonicMs()
      const restMs = Math.min(((endMs - startMs) * restShare) / asking.length, restMsMax)
      this.#restedMs = Math.max(startMs, this.#restedMs) + (endMs - startMs) + restMs
      this.#isScheduled = false
      if (this.#asking.length > 0) this.#schedule()
    }
  }
}
