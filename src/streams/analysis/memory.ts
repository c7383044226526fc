// Lays out the memory that the source thread, the analysis workers and the main thread share.
// Thread: main creates it, any thread opens it. All state that outlives a block is here, so that a
// worker may die at any time.
//
//   | page 0: constants of the WebAssembly module                                              |
//   | sync table: 128-byte lines of words, see block-jobs.ts                                   |
//   | tops: the last results of the trackers, one entry per ticket, see block-jobs.ts          |
//   | trackers: two states, one is current: [5-minute window f64, 0, accounts, storage]        |
//   | control ring: block-level events for the main thread, see feed.ts                        |
//   | event ring: transaction-level events for the workers, see feed.ts                        |
//   | scratch: one area per worker; untouched pages cost nothing                               |
import { randomFillSync } from 'node:crypto'
import { assert } from '../../base/errors.ts'
import { cacheLineBytes, type RingDescriptor, ringByteLength } from '../../base/rings/layout.ts'
import { RingWriter } from '../../base/rings/ring.ts'

/** Counters per tracker. */
const trackerCounters = 1000
export const addressBytes = 20
export const storageKeyBytes = 52
const secretBytes = 64
export const syncTableBytes = 6 * cacheLineBytes
/** Entries for tracker results; more than blocks can be in flight. */
export const topEntries = 64
/** Fits two counts, ten accounts and ten storage slots. */
export const topBytes = 2048
const controlRingBytes = 1024 * 1024
/** The feed reserves space in steps of 256 KiB: no block fits a smaller ring. */
const eventRingBytesMin = 512 * 1024
const eventRingBytesMax = 256 * 1024 * 1024
const pageBytes = 65_536

interface MemoryOptions {
  /** Bytes of the event ring, a power of two; bounds the largest block that can be analysed. */
  readonly eventRingBytes: number
  /** Workers that may analyse at the same time. */
  readonly workers: number
  readonly counters?: number
}

/** Can be posted to a worker. */
export interface AnalysisMemory {
  readonly memory: WebAssembly.Memory
  readonly module: WebAssembly.Module
  readonly syncTable: number
  readonly tops: number
  /** Two states of `stateBytes` each; in each a tracker of accounts and one of storage slots. */
  readonly states: number
  readonly stateBytes: number
  readonly accountTracker: number
  readonly storageTracker: number
  readonly counters: number
  readonly controlRing: RingDescriptor
  readonly eventRing: RingDescriptor
  readonly scratch: number
  readonly scratchBytes: number
  readonly workers: number
}

/** A state begins with the number of its 5-minute window; the trackers follow. */
const stateHeaderBytes = 64

export function createMemory(module: WebAssembly.Module, options: MemoryOptions): AnalysisMemory {
  const { eventRingBytes, workers } = options
  const counters = options.counters ?? trackerCounters
  assert(
    eventRingBytes >= eventRingBytesMin && eventRingBytes <= eventRingBytesMax,
    'the event ring must have 512 KiB to 256 MiB',
  )
  assert(workers >= 1 && workers <= 16, 'analysis workers must be 1 to 16')
  const tracker = trackerBytes(counters)
  const stateBytes = roundUp(stateHeaderBytes + 2 * tracker, 128)
  const syncTable = pageBytes
  const tops = syncTable + syncTableBytes
  const states = tops + topEntries * topBytes
  const control = roundUp(states + 2 * stateBytes, 128)
  const events = roundUp(control + ringByteLength(controlRingBytes), 128)
  const scratch = roundUp(events + ringByteLength(eventRingBytes), pageBytes)
  // Lists and tables of a block take up to twice its bytes, pairs of contracts the same again.
  const scratchBytes = roundUp(16 * 1024 * 1024 + eventRingBytes * 4, pageBytes)
  const pages = (scratch + workers * scratchBytes) / pageBytes
  const memory = new WebAssembly.Memory({ initial: pages, maximum: pages, shared: true })
  const ring = (byteOffset: number, capacity: number): RingDescriptor => ({
    buffer: memory.buffer,
    byteOffset,
    byteLength: ringByteLength(capacity),
  })
  const made: AnalysisMemory = {
    memory,
    module,
    syncTable,
    tops,
    states,
    stateBytes,
    accountTracker: stateHeaderBytes,
    storageTracker: stateHeaderBytes + tracker,
    counters,
    controlRing: ring(control, controlRingBytes),
    eventRing: ring(events, eventRingBytes),
    scratch,
    scratchBytes,
    workers,
  }
  // Before any other thread has the memory.
  randomFillSync(new Uint8Array(memory.buffer, syncTable, secretBytes))
  RingWriter.create(made.controlRing)
  RingWriter.create(made.eventRing)
  const program = openProgram(made)
  for (const state of [states, states + stateBytes]) formatState(made, program, state)
  return made
}

/** Empties the trackers of a state. */
export function formatState(
  at: Pick<AnalysisMemory, 'accountTracker' | 'storageTracker' | 'counters'>,
  program: ReturnType<typeof openProgram>,
  state: number,
): void {
  program.formatTracker(state + at.accountTracker, at.counters, addressBytes)
  program.formatTracker(state + at.storageTracker, at.counters, storageKeyBytes)
}

/** The same computation as in wasm/space-saving.ts; a test compares them. */
export function trackerBytes(counters: number): number {
  const table = 2 ** Math.max(4, Math.ceil(Math.log2(counters * 2)))
  const buckets = counters + 2
  return 32 + table * 8 + counters * 80 + buckets * 24 + roundUp(buckets * 4, 8)
}

function roundUp(value: number, multiple: number): number {
  return Math.ceil(value / multiple) * multiple
}

// Opens the WebAssembly analysis module, compiled from wasm/; one instance per thread.
// Thread: main (to format memory) and analysis workers. Instances share their memory.

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
interface Cell {
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
