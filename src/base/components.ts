// Starts the server's components in order and stops them in reverse. Thread: main.
// When one fails to start, those started before it are stopped, so that nothing stays half open.

export interface Stoppable {
  stop(): void | Promise<void>
}

interface Started {
  readonly name: string
  readonly component: Stoppable
}

/** Stop timeout of one component; after it the next one is stopped. */
const stopMsMax = 8_000

export class Components {
  readonly #started: Started[] = []
  readonly #onSlow: (name: string) => void
  #stopping: Promise<void> | null = null

  constructor(onSlow: (name: string) => void) {
    this.#onSlow = onSlow
  }

  /** Starts a component, keeps it under its name for `stop`, and returns it. */
  async add<T extends Stoppable>(name: string, start: () => T | Promise<T>): Promise<T> {
    try {
      const component = await start()
      this.#started.push({ name, component })
      return component
    } catch (error) {
      // The error of the start is reported, not those of the stops.
      await this.stop().catch(() => {})
      throw error
    }
  }

  /** Stops every component, the last one first. Calls after the first share its outcome. */
  stop(): Promise<void> {
    this.#stopping ??= this.#stopAll()
    return this.#stopping
  }

  /** A component that fails to stop (a full disk) does not keep the others from stopping. */
  async #stopAll(): Promise<void> {
    const faults: unknown[] = []
    for (const { name, component } of this.#started.reverse()) {
      let timer: NodeJS.Timeout | undefined
      const timeout = new Promise<void>((resolve) => {
        timer = setTimeout(() => {
          this.#onSlow(name)
          resolve()
        }, stopMsMax)
      })
      try {
        await Promise.race([component.stop(), timeout])
      } catch (error) {
        faults.push(error)
      } finally {
        clearTimeout(timer)
      }
    }
    if (faults.length > 0) throw faults[0]
  }
}
