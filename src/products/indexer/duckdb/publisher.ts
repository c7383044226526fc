// Publishes the list of files that readers open, and deletes files once no reader needs them.
// Thread: main of the writer process.
import { removeFiles, type Snapshot, type SnapshotFile, writeSnapshot } from './store-files.ts'

/** Grace period before a replaced file is deleted: readers of an older snapshot may open it. */
export const removeDelayMs = 15_000

export class Publisher {
  readonly #folder: string
  #version: number
  #published: Snapshot | null = null
  /** The last write of the snapshot's file; never rejects. */
  #writing: Promise<unknown> = Promise.resolve()
  readonly #removals = new Set<NodeJS.Timeout>()

  /** Versions grow from the one on disk. */
  constructor(folder: string, version: number) {
    this.#folder = folder
    this.#version = version
  }

  /** Resolves when the snapshot with these files is on disk. */
  async publish(files: readonly SnapshotFile[]): Promise<Snapshot> {
    const before = this.#published
    if (before !== null && isSame(before.files, files)) {
      // Its write may still be running, and the caller may read it from disk.
      await this.#writing
      return before
    }
    this.#version += 1
    const snapshot = { version: this.#version, files }
    this.#published = snapshot
    const written = this.#writing.then(() => writeSnapshot(this.#folder, snapshot))
    this.#writing = written.catch(() => {})
    await written
    return snapshot
  }

  /** Resolves when no write is running. */
  async idle(): Promise<void> {
    await this.#writing
  }

  removeLater(names: readonly string[]): void {
    if (names.length === 0) return
    const timer = setTimeout(() => {
      this.#removals.delete(timer)
      void removeFiles(this.#folder, names).catch(() => {})
    }, removeDelayMs)
    timer.unref()
    this.#removals.add(timer)
  }

  stop(): void {
    for (const timer of this.#removals) clearTimeout(timer)
  }
}

function isSame(a: Snapshot['files'], b: Snapshot['files']): boolean {
  return a.length === b.length && a.every((file, index) => file.name === b[index]!.name)
}
