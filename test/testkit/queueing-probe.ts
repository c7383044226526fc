// How long the main thread of a server delays others by its own work, and how long it waits for a
// core that other processes use: on a shared machine a client sees the sum of both.
import { closeSync, existsSync, mkdtempSync, openSync, readSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { packageRoot } from '../../src/base/package-root.ts'

export interface Queueing {
  readonly ownMs: readonly number[]
  readonly waitedMs: readonly number[]
}

const sampleBytes = 16
export const isQueueingCounted = existsSync('/proc/self/schedstat')

export class QueueingProbe {
  readonly #folder = mkdtempSync(join(tmpdir(), 'queueing-probe-'))
  readonly #file = join(this.#folder, 'samples')

  /** For `startServer`; nothing where the kernel does not count. */
  get options() {
    if (!isQueueingCounted) return { nodeFlags: [], env: {} }
    const entry = join(packageRoot(), 'test', 'testkit', 'workers', 'queueing-probe.mjs')
    return { nodeFlags: ['--import', entry], env: { QUEUEING_PROBE: this.#file } }
  }

  /** Where the next sample will be. */
  get at(): number {
    const bytes = existsSync(this.#file) ? statSync(this.#file).size : 0
    return bytes - (bytes % sampleBytes)
  }

  since(start: number): Queueing {
    const values = new Float64Array((this.at - start) / Float64Array.BYTES_PER_ELEMENT)
    if (values.length > 0) {
      const file = openSync(this.#file, 'r')
      readSync(file, values, 0, values.byteLength, start)
      closeSync(file)
    }
    return {
      ownMs: [...values.filter((_, index) => index % 2 === 0)],
      waitedMs: [...values.filter((_, index) => index % 2 === 1)],
    }
  }

  /** After the server has ended. */
  dispose(): void {
    rmSync(this.#folder, { recursive: true })
  }
}
