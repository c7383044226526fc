// The files that hold everything up to now, for a query that is about to run. Thread: main.
import { ReadableAsker } from './readable-door.ts'
import { type Readable, readReadable } from './store-files.ts'

/** Queries within so long share a view: rows are at most that much older than the newest. */
const shareMs = 100
/** A writer that is busy for longer is not waited for, and one that is down not at all. */
const askMsMax = 5000

export class ViewOfNow {
  readonly #folder: string
  readonly #asker: ReadableAsker
  #asked: Promise<Readable | null> = Promise.resolve(null)
  #askedAtMs = Number.NEGATIVE_INFINITY

  constructor(folder: string) {
    this.#folder = folder
    this.#asker = new ReadableAsker(folder)
  }

  /**
   * What there is after the bound at the latest, be it a little older. Rejects when there is a
   * view that cannot be read (no descriptors, a broken disk): that is not an empty index.
   */
  async get(boundMs: number): Promise<Readable> {
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<null>((resolve) => {
      timer = setTimeout(() => resolve(null), boundMs)
    })
    const readable = await Promise.race([this.#get(), late])
    clearTimeout(timer)
    return readable ?? readReadable(this.#folder)
  }

  #get(): Promise<Readable | null> {
    if (performance.now() - this.#askedAtMs < shareMs) return this.#asked
    // One question at a time: the next begins when the last has its answer or has failed.
    const ask = () => this.#asker.ask(askMsMax)
    this.#asked = this.#asked.then(ask, ask)
    this.#askedAtMs = performance.now()
    return this.#asked
  }

  /** A view from scratch, after one turned out to be too old. */
  renew(boundMs: number): Promise<Readable> {
    this.#askedAtMs = Number.NEGATIVE_INFINITY
    return this.get(boundMs)
  }

  close(): void {
    this.#asker.close()
  }
}
