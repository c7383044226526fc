// A list of updates in little memory: consecutive updates of one source are kept as a run of
// positions, and made again when they are read.
// A chain's updates of half a minute are a million objects, which the garbage collector would
// visit several times a second; runs of a few thousand sources cost it nothing.

/** Makes the update at a position, each time as a new object with the same content. */
export interface UpdateSource {
  update(position: number): unknown
  /** Of that update, without making it. */
  slotAt?(position: number): number
}

/** An update without a source is kept itself. */
export interface Listed {
  readonly source?: UpdateSource
  readonly position?: number
}

/** Updates of a source in a row, or one update that is kept itself. */
export interface UpdateRun<U> {
  readonly source: UpdateSource | null
  readonly update: U | null
  readonly start: number
  readonly end: number
}

interface Run<U> extends UpdateRun<U> {
  end: number
}

export class UpdateList<U extends Listed> {
  readonly #runs: Run<U>[] = []
  length = 0

  push(update: U): void {
    const { source = null, position = 0 } = update
    this.length++
    const last = this.#runs[this.#runs.length - 1]
    if (source !== null && last?.source === source && last.end === position) last.end++
    else
      this.#runs.push({
        source,
        update: source === null ? update : null,
        start: position,
        end: position + 1,
      })
  }

  /**
   * Appends those of another list: runs of sources as they are, without making an update, and
   * gives each update that is kept itself to `take`.
   */
  append(other: UpdateList<U>, take: (update: U) => void): void {
    for (const run of other.#runs) {
      this.#runs.push({ ...run })
      this.length += run.end - run.start
      if (run.update !== null) take(run.update)
    }
  }

  /** Of the updates so far. */
  runs(): readonly UpdateRun<U>[] {
    return this.#runs.map((run) => ({ ...run }))
  }

  /** Those that are kept themselves. */
  *kept(): Iterable<U> {
    for (const { update } of this.#runs) if (update !== null) yield update
  }

  /** Appends updates that a source makes. */
  appendRun(source: UpdateSource, start: number, end: number): void {
    this.#runs.push({ source, update: null, start, end })
    this.length += end - start
  }

  /** Drops all; readers that are open find nothing more. */
  clear(): void {
    this.#runs.length = 0
    this.length = 0
  }

  /** Reads from the start; what is pushed meanwhile is read, too. */
  reader(): UpdateReader<U> {
    return new UpdateReader(this.#runs)
  }

  *[Symbol.iterator](): Iterator<U> {
    const reader = this.reader()
    for (let update = reader.next(); update !== null; update = reader.next()) yield update
  }
}

export class UpdateReader<U extends Listed> {
  readonly #runs: readonly Run<U>[]
  #run = 0
  #position = -1

  constructor(runs: readonly Run<U>[]) {
    this.#runs = runs
  }

  /** Null at the end, until more is pushed. */
  next(): U | null {
    for (;;) {
      const run = this.#runs[this.#run]
      if (run === undefined) return null
      const position = Math.max(this.#position, run.start)
      if (position < run.end) {
        this.#position = position + 1
        // Reason for the cast: a source makes what was pushed.
        return run.source === null ? run.update : (run.source.update(position) as U)
      }
      // The last run may still grow.
      if (this.#run === this.#runs.length - 1) return null
      this.#run++
      this.#position = -1
    }
  }

  /** Passes over what sources would make of such slots; returns how many. */
  pass(isPassed: (slot: number) => boolean): number {
    for (let count = 0; ; this.#run++) {
      const run = this.#runs[this.#run]
      if (run === undefined) return count
      let position = Math.max(this.#position, run.start)
      for (let passed = -1; position < run.end; position++, count++) {
        const slot = run.source?.slotAt?.(position)
        if (slot === undefined || (slot !== passed && !isPassed(slot))) break
        passed = slot
      }
      this.#position = position
      // The last run may still grow.
      if (position < run.end || this.#run === this.#runs.length - 1) return count
      this.#position = -1
    }
  }
}
