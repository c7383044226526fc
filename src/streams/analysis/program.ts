// Opens the WebAssembly analysis module, compiled from wasm/; one instance per thread.
// Thread: main (to format memory) and analysis workers. Instances share their memory.
import { assert } from '../../base/assert.ts'

/** The exports of wasm/analysis.ts. Addresses are byte offsets in the shared memory. */
export interface Program {
  readSecret(at: number): void
  useScratch(at: number, bytes: number): void
  /** Returns 0 done, 1 damaged records, 2 more than fits the scratch. */
  analyse(
    ringData: number,
    ringCapacity: number,
    from: number,
    to: number,
    blockNumber: number,
    wallNs: number,
  ): number
  encodeAgain(blockNumber: number, wallNs: number): number
  feed(accountTracker: number, storageTracker: number): void
  feedKeys(tracker: number, keys: number, count: number, keyBytes: number): void
  formatTracker(at: number, counters: number, keyBytes: number): void
  trackerBytes(counters: number): number
  writeTop(tracker: number, limit: number, to: number): number
  encodeTop(
    to: number,
    accounts: number,
    accountCount: number,
    storage: number,
    storageCount: number,
  ): number
  readonly textAt: Cell
  readonly textBytes: Cell
  readonly headersAt: Cell
  readonly headersBytes: Cell
}

/** A global variable of the module. */
export interface Cell {
  readonly value: number
}

export const analysed = { done: 0, damaged: 1, tooLarge: 2 } as const

/** Creates an instance. `syncTable` is the offset of the process's secret for hashing. */
export function openProgram(at: {
  readonly memory: WebAssembly.Memory
  readonly module: WebAssembly.Module
  readonly syncTable: number
}): Program {
  const bytes = new Uint8Array(at.memory.buffer)
  const writeNumber = (value: number, to: number): number => {
    const text = String(value)
    for (let index = 0; index < text.length; index++) bytes[to + index] = text.charCodeAt(index)
    return text.length
  }
  const { exports } = new WebAssembly.Instance(at.module, {
    env: { memory: at.memory, writeNumber },
  })
  assert(typeof exports.analyse === 'function', 'the analysis module must export its functions')
  // Reason for the cast: the module is compiled from sources of this folder, which the interface
  // describes; a test compares the two.
  const program = exports as unknown as Program
  program.readSecret(at.syncTable)
  return program
}
