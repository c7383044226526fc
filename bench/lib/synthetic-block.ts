// A made-up block for the analysis benches: transactions with storage accesses, skewed like real
// ones, laid into an event ring by the feed itself. Thread: main of the bench process.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { dataByte, loadPosition, openViews, publishedAt } from '../../src/base/rings/layout.ts'
import {
  blockEnd,
  blockStart,
  EventType,
  storageAccess,
  txnHeaderStart,
} from '../../src/chain/evm/event-payload.ts'
import { descriptor } from '../../src/chain/evm/event-ring.ts'
import { writeU16, writeU32, writeU64 } from '../../src/chain/evm/words.ts'
import { EventFeed } from '../../src/streams/analysis/feed.ts'
import type { AnalysisMemory, Program } from '../../src/streams/analysis/memory.ts'
import { createMemory, openProgram } from '../../src/streams/analysis/memory.ts'
import { loadAnalysisModule } from '../../src/streams/flows/execution.ts'

export interface BlockShape {
  readonly txns: number
  readonly accessesEach: number
  readonly ringBytes: number
}

const contracts = 2000
const slotsEach = 5000
/** As bench/native/cont.c assumes them. */
export const blockNumber = 1
export const wallNs = 1_000_000

export class SyntheticBlock {
  readonly memory: AnalysisMemory
  readonly program: Program
  readonly bytes: Uint8Array
  readonly #folder: string

  private constructor(memory: AnalysisMemory, shape: BlockShape) {
    this.memory = memory
    this.program = openProgram(memory)
    const length = writeBlock(memory, shape)
    const data = memory.eventRing.byteOffset + dataByte
    this.bytes = new Uint8Array(memory.memory.buffer, data, length)
    this.program.useScratch(memory.scratch, memory.scratchBytes)
    this.#folder = mkdtempSync(join(tmpdir(), 'sluice-bench-block-'))
    writeFileSync(this.path, this.bytes)
  }

  static async make(shape: BlockShape): Promise<SyntheticBlock> {
    const module = await loadAnalysisModule()
    const memory = createMemory(module, { eventRingBytes: shape.ringBytes, workers: 1 })
    return new SyntheticBlock(memory, shape)
  }

  /** The same bytes for the C program. */
  get path(): string {
    return join(this.#folder, 'records')
  }

  analyse(): string {
    const { program, memory, bytes } = this
    const data = memory.eventRing.byteOffset + dataByte
    const capacity = memory.eventRing.byteLength - dataByte
    const code = program.analyse(data, capacity, 0, bytes.length, blockNumber, wallNs)
    if (code !== 0) throw new Error(`the analysis answered ${code}`)
    return this.text(program.textBytes.value)
  }

  text(length: number): string {
    const at = this.program.textAt.value
    return Buffer.from(this.memory.memory.buffer, at, length).toString('latin1')
  }

  async stop(): Promise<void> {
    rmSync(this.#folder, { recursive: true, force: true })
  }
}

/** Returns how many bytes of the ring the block takes; it begins at 0. */
function writeBlock(memory: AnalysisMemory, shape: BlockShape): number {
  const feed = new EventFeed(memory, {
    isLossless: false,
    nowMs: () => 0,
    isStopping: () => false,
  })
  const head = new Uint8Array(descriptor.bytes)
  let seqno = 0
  const emit = (type: number, payload: Uint8Array, txn: number) => {
    seqno += 1
    writeU64(head, descriptor.seqno, seqno)
    writeU16(head, descriptor.type, type)
    writeU32(head, descriptor.payloadSize, payload.length)
    writeU64(head, descriptor.timeNs, seqno * 1000)
    writeU64(head, descriptor.txn, txn)
    feed.event(head, payload)
  }
  const random = xorshift(987_654_321)
  emit(EventType.BlockStart, new Uint8Array(blockStart.size), 0)
  const header = new Uint8Array(txnHeaderStart.size)
  const access = new Uint8Array(storageAccess.size)
  for (let txn = 1; txn <= shape.txns; txn++) {
    emit(EventType.TxnHeaderStart, header, txn)
    for (let index = 0; index < shape.accessesEach; index++) {
      writeKey(access, storageAccess.address, 20, Math.floor(contracts * random() ** 3))
      writeKey(access, storageAccess.key, 32, 7 + Math.floor(slotsEach * random() ** 4))
      access[storageAccess.isModified] = random() < 0.4 ? 1 : 0
      emit(EventType.StorageAccess, access, txn)
    }
  }
  emit(EventType.BlockEnd, new Uint8Array(blockEnd.size), 0)
  return loadPosition(openViews(memory.eventRing).words, publishedAt)
}

function writeKey(target: Uint8Array, at: number, length: number, value: number): void {
  for (let word = 0; word < length; word += 4) {
    let hash = Math.imul(value + 1, 0x9e3779b1) ^ Math.imul(word + 1, 0x85ebca6b)
    hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d)
    writeU32(target, at + word, (hash ^ (hash >>> 12)) >>> 0)
  }
}

function xorshift(seed: number): () => number {
  let state = seed
  return () => {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    return (state >>> 0) / 2 ** 32
  }
}
