// Starts parts in order and stops them in reverse. Thread: main. Used by the topology alone.
// A part that fails to start takes down those before it, so that nothing is left half open.

export interface Stoppable {
  stop(): void | Promise<void>
}

interface Started {
  readonly name: string
  readonly part: Stoppable
}

/** A part that does not stop within this time is left behind, and the next one is stopped. */
export const partStopMsMax = 8_000

export class Parts {
  readonly #started: Started[] = []
  readonly #onSlow: (name: string) => void
  #stopping: Promise<void> | null = null

  constructor(onSlow: (name: string) => void) {
    this.#onSlow = onSlow
  }

  /** Takes a started part under its name, and gives it back. */
  async add<T extends Stoppable>(name: string, start: () => T | Promise<T>): Promise<T> {
    try {
      const part = await start()
      this.#started.push({ name, part })
      return part
    } catch (error) {
      // Why it did not start is what counts.
      await this.stop().catch(() => {})
      throw error
    }
  }

  /** Stops every part, the last one first. Calls after the first share its outcome. */
  stop(): Promise<void> {
    this.#stopping ??= this.#stopAll()
    return this.#stopping
  }

  /** One that fails to stop (a full disk) does not keep the others from it. */
  async #stopAll(): Promise<void> {
    const faults: unknown[] = []
    for (const { name, part } of this.#started.reverse()) {
      let timer: NodeJS.Timeout | undefined
      const bound = new Promise<void>((resolve) => {
        timer = setTimeout(() => {
          this.#onSlow(name)
          resolve()
        }, partStopMsMax)
      })
      try {
        await Promise.race([part.stop(), bound])
      } catch (error) {
        faults.push(error)
      } finally {
        clearTimeout(timer)
      }
    }
    if (faults.length > 0) throw faults[0]
  }
}
