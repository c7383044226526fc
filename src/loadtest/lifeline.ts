// Counts a driver's open connections: when all are open, when to reconnect, when all are lost.
// Thread: load.
import { sharedNowMs } from './thread-clock.ts'

const reconnectMs = 50
/** Time without any connection after which the endpoint counts as gone. */
const goneMsMax = 2_000

export class Lifeline {
  reconnects = 0
  #open = 0
  #everOpened = 0
  #reason = ''
  #goneSinceMs: number | null = null
  #isClosed = false
  #waiting: { readonly count: number; readonly resolve: (problem: string | null) => void } | null =
    null

  /** Resolves when `count` connections were opened, or with a sentence when one failed. */
  opened(count: number): Promise<string | null> {
    return new Promise((resolve) => {
      this.#waiting = { count, resolve }
      this.#settle()
    })
  }

  gained(): void {
    this.#open += 1
    this.#everOpened += 1
    this.#goneSinceMs = null
    this.#settle()
  }

  /** A connection ended or could not be opened; `again` reconnects after a pause. */
  lost(wasOpen: boolean, reason: string, again: () => void): void {
    this.#reason = reason
    if (wasOpen) this.#open -= 1
    if (this.#open === 0) this.#goneSinceMs ??= sharedNowMs()
    if (this.#isClosed) return
    if (this.#waiting !== null && !wasOpen) {
      this.#fail(`the endpoint cannot be reached: ${reason}`)
      return
    }
    setTimeout(() => {
      if (this.#isClosed) return
      this.reconnects += 1
      again()
    }, reconnectMs)
  }

  /** A sentence once the endpoint has accepted no connection for a while. */
  failure(nowMs: number): string | null {
    if (this.#goneSinceMs === null || nowMs - this.#goneSinceMs < goneMsMax) return null
    return `the endpoint closed every connection and accepts no new one (${this.#reason})`
  }

  close(): void {
    this.#isClosed = true
  }

  #settle(): void {
    if (this.#waiting === null || this.#everOpened < this.#waiting.count) return
    this.#waiting.resolve(null)
    this.#waiting = null
  }

  #fail(problem: string): void {
    this.#waiting?.resolve(problem)
    this.#waiting = null
  }
}
