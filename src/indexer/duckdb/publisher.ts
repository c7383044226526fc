// Publishes the list of files that readers open, and deletes files once no reader needs them.
// Thread: main of the writer process. One call at a time.
import { removeFiles, type SnapshotFile, type StoreSnapshot, writeSnapshot } from './store-files.ts'

/** Grace period before a replaced file is deleted: readers of an older snapshot may open it. */
export const removeDelayMs = 15_000

export class Publisher {
  readonly #folder: string
  #published: StoreSnapshot
  readonly #removals = new Set<NodeJS.Timeout>()

  /** Versions grow from the one on disk. */
  constructor(folder: string, published: StoreSnapshot) {
    this.#folder = folder
    this.#published = published
  }

  /** Resolves when the snapshot with these files is on disk. */
  async publish(files: readonly SnapshotFile[]): Promise<StoreSnapshot> {
    const before = this.#published
    if (isSame(before.files, files)) return before
    const snapshot = { version: before.version + 1, files }
    await writeSnapshot(this.#folder, snapshot)
    this.#published = snapshot
    return snapshot
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

function isSame(a: StoreSnapshot['files'], b: StoreSnapshot['files']): boolean {
  return a.length === b.length && a.every((file, index) => file.name === b[index]!.name)
}
