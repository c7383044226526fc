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
        this.#push(0)
    this.#last = number
    const [third = 0, second = 0, newest = 0] = this.#counts
    return third + second + Math.floor(newest / 2)
  }

  /** Adds a completed block's transaction count; 0 for a block that was not seen whole. */
  complete(txnCount: number): void {
    this.#push(txnCount)
  }

  #push(txnCount: number): void {
    this.#counts.shift()
    this.#counts.push(txnCount)
  }
}
