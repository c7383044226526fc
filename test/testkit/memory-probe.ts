// What a server keeps in memory, measured after its garbage is collected; and whether it grows.
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { packageRoot } from '../../src/base/package-root.ts'
import { until } from './until.ts'

export interface MemorySample {
  /** Heap and buffers of the main thread, and of that of gRPC connections. */
  readonly retained: number
  /** Of the whole process, with what its allocators hold back. */
  readonly resident: number
}

export class MemoryProbe {
  readonly #folder = mkdtempSync(join(tmpdir(), 'memory-probe-'))
  readonly #file = join(this.#folder, 'sample.json')
  #count = 0

  /** For `startServer`. */
  get options() {
    // Benches call this from dist.
    const entry = join(packageRoot(), 'test', 'testkit', 'workers', 'memory-probe.mjs')
    return { nodeFlags: ['--expose-gc', '--import', entry], env: { MEMORY_PROBE: this.#file } }
  }

  async sample(pid: number): Promise<MemorySample> {
    this.#count++
    process.kill(pid, 'SIGUSR2')
    await until(() => this.#read()?.count === this.#count, 'a sample of memory')
    return this.#read()!
  }

  /** After the server has ended. */
  dispose(): void {
    rmSync(this.#folder, { recursive: true })
  }

  #read(): (MemorySample & { readonly count: number }) | null {
    return existsSync(this.#file) ? JSON.parse(readFileSync(this.#file, 'utf8')) : null
  }
}

export function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[values.length >> 1]!
}

/**
 * How much values that were taken at equal distances rise from the first to the last: the median
 * of the slopes between all pairs (Theil and Sen), which single high ones do not move.
 */
export function riseOf(values: readonly number[]): number {
  const slopes = values.flatMap((value, at) =>
    values.slice(at + 1).map((later, distance) => (later - value) / (distance + 1)),
  )
  return slopes.length === 0 ? 0 : median(slopes) * (values.length - 1)
}
