// Delays refusals, so that a client that retries a refused request at once costs one answer per
// second and connection instead of as many as it can send.
// Bounded per client; past the bound the caller answers at once and should close the connection.
const delayMsMax = 1_000
const waitingMax = 16

export class RefusalDelay {
  readonly #waiting = new Map<string, number>()

  /** Resolves after `waitMs`, at most a second; null when too many refusals of this client are
   *  delayed already. `key` is the client's address key. */
  delay(key: string, waitMs: number): Promise<void> | null {
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
