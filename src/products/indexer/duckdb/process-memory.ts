// How much memory a process has resident, asked of the system. Thread: main.
import { closeSync, openSync, readSync } from 'node:fs'

/** Of Linux on the machines that we know; its statm counts in these. */
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

  /** 0 when the process is gone or the system does not tell. */
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
