// Holds refusals back for a while, so that a client that repeats a refused request at once costs
// one answer a second and connection instead of all that it can send. Thread: main.
// Bounded per client; beyond the bound a refusal goes out at once, and should end its connection.
const delayMsMax = 1_000
const waitingMax = 16

export class RefusalDelay {
  readonly #waiting = new Map<string, number>()

  /** Waits for the stated time, at most a second; null when too many of this client wait already.
   *  `key` is the client's address key. */
  hold(key: string, waitMs: number): Promise<void> | null {
    const count = this.#waiting.get(key) ?? 0
    if (count >= waitingMax) return null
    this.#waiting.set(key, count + 1)
    return new Promise((resolve) => {
      const end = (): void => {
        this.#release(key)
        resolve()
      }
      setTimeout(end, Math.min(waitMs, delayMsMax)).unref()
    })
  }

  #release(key: string): void {
    const left = (this.#waiting.get(key) ?? 1) - 1
    if (left === 0) this.#waiting.delete(key)
    else this.#waiting.set(key, left)
  }
}
