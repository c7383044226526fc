// Reads the resident memory of a process from /proc. Thread: main.
import { closeSync, openSync, readSync } from 'node:fs'

/** Page size of Linux on supported machines; statm counts pages. */
const pageBytes = 4096

export class ProcessMemory {
  readonly #buffer = Buffer.alloc(128)
  #file: number | null

  constructor(pid: number) {
    try {
      this.#file = openSync(`/proc/${pid}/statm`, 'r')
    } catch {
      this.#file = null
    }
  }

  /** 0 when the process is gone or the system does not report it. */
  rssBytes(): number {
    if (this.#file === null) return 0
    try {
      const length = readSync(this.#file, this.#buffer, 0, this.#buffer.length, 0)
      return Number(this.#buffer.toString('latin1', 0, length).split(' ')[1] ?? 0) * pageBytes
    } catch {
      return 0
    }
  }

  close(): void {
    if (this.#file !== null) closeSync(this.#file)
    this.#file = null
  }
}
