// Provides the newest snapshot of the index's files to queries. Thread: main.
import { SnapshotClient } from './snapshot-socket.ts'
import { readSnapshot, type Snapshot } from './store-files.ts'

/** Queries within this time share a snapshot: their rows are at most this much older. */
const shareMs = 100
/** Timeout for a busy writer; a writer that is down fails at once. */
const requestMsMax = 5000

export class LatestSnapshot {
  readonly #folder: string
  readonly #client: SnapshotClient
  #requested: Promise<Snapshot | null> = Promise.resolve(null)
  #requestedAtMs = Number.NEGATIVE_INFINITY

  constructor(folder: string) {
    this.#folder = folder
    this.#client = new SnapshotClient(folder)
  }

  /**
   * Resolves within the timeout; falls back to the snapshot on disk, which may be older. Rejects
   * when that exists and cannot be read (no file descriptors, a broken disk), because returning
   * an empty index would be wrong.
   */
  async get(timeoutMs: number): Promise<Snapshot> {
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<null>((resolve) => {
      timer = setTimeout(() => resolve(null), timeoutMs)
    })
    const snapshot = await Promise.race([this.#get(), late])
    clearTimeout(timer)
    return snapshot ?? readSnapshot(this.#folder)
  }

  #get(): Promise<Snapshot | null> {
    if (performance.now() - this.#requestedAtMs < shareMs) return this.#requested
    // One request at a time: the next starts when the previous one is answered or has failed.
    const request = () => this.#client.request(requestMsMax)
    this.#requested = this.#requested.then(request, request)
    this.#requestedAtMs = performance.now()
    return this.#requested
  }

  /** Requests a new snapshot after the shared one turned out to be stale. */
  renew(timeoutMs: number): Promise<Snapshot> {
    this.#requestedAtMs = Number.NEGATIVE_INFINITY
    return this.get(timeoutMs)
  }

  close(): void {
    this.#client.close()
  }
}
