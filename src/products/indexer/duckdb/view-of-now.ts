// The files that hold everything up to now, for a query that is about to run. Thread: main.
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { ReadableAsker } from './readable-door.ts'
import { nothingReadable, type Readable, readableFrom, readableName } from './store-files.ts'

/** Queries within so long share a view: rows are at most that much older than the newest. */
const shareMs = 100
/** A writer that is busy for longer is not waited for, and one that is down not at all. */
const askMsMax = 5000

export class ViewOfNow {
  readonly #folder: string
  readonly #asker: ReadableAsker
  #asked: Promise<Readable> | null = null
  #askedAtMs = Number.NEGATIVE_INFINITY

  constructor(folder: string) {
    this.#folder = folder
    this.#asker = new ReadableAsker(folder)
  }

  /** What there is after the bound at the latest, be it a little older. */
  async get(boundMs: number): Promise<Readable> {
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<null>((resolve) => {
      timer = setTimeout(() => resolve(null), boundMs)
    })
    const readable = await Promise.race([this.#get(), late])
    clearTimeout(timer)
    return readable ?? this.#written()
  }

  #get(): Promise<Readable> {
    const isFresh = performance.now() - this.#askedAtMs < shareMs
    if (this.#asked !== null && isFresh) return this.#asked
    // One question at a time: the next begins when the last has its answer.
    this.#asked = (this.#asked ?? Promise.resolve(nothingReadable)).then(() => this.#ask())
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

  async #ask(): Promise<Readable> {
    return (await this.#asker.ask(askMsMax)) ?? this.#written()
  }

  async #written(): Promise<Readable> {
    try {
      return readableFrom(await readFile(join(this.#folder, readableName), 'utf8'))
    } catch {
      // Nothing was written yet, or it is being replaced: an empty index has no rows.
      return nothingReadable
    }
  }
}
