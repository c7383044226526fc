// What several contenders of a bench use together. Thread: main of the bench process.
import type { RoundContext } from './bench.ts'

/** Started by the first contender that asks, stopped by the first that closes: all close together. */
export class Shared<T extends { stop(): Promise<void> }> {
  readonly #start: (context: RoundContext) => Promise<T>
  #started: Promise<T> | null = null

  constructor(start: (context: RoundContext) => Promise<T>) {
    this.#start = start
  }

  get(context: RoundContext): Promise<T> {
    this.#started ??= this.#start(context)
    return this.#started
  }

  async stop(): Promise<void> {
    const started = this.#started
    this.#started = null
    await started?.then(
      (one) => one.stop(),
      () => {},
    )
  }
}
