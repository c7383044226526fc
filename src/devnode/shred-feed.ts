// Sends the chain's blocks as shreds by UDP, as a validator does. Thread: main of the devnode
// collects the entries of a block; a worker makes, signs and sends the shreds.
import { DedicatedWorker, type SupervisorDeps } from '../base/threads/supervisor.ts'
import type {
  AccountContent,
  BlockMetaContent,
  EntryContent,
  TransactionContent,
} from '../chain/solana/geyser-decode.ts'
import {
  chainedRootAt,
  codeShredBytes,
  dataCapacityOf,
  dataShredBytes,
  flagBits,
  offsets,
  rootBytes,
  setShreds,
  signatureBytes,
  treeOf,
  variants,
  writeProof,
} from '../chain/solana/shred.ts'
import { encodeParity } from '../chain/solana/shred-set.ts'
import { transactionBytes } from '../chain/solana/wire.ts'
import type { SlotChange, SolanaSink } from './sink.ts'

/** Where shreds go. */
export interface ShredTarget {
  readonly host: string
  readonly port: number
  /** Shred version of the cluster. */
  readonly version: number
}

/** A shred has 16 bits for the distance to its parent; a jump of the chain may be longer. */
const parentOffsetMax = 0xffff
/** Of a chain whose shreds go nowhere. */
const defaultVersion = 1

/** A message to the worker: all entries of a slot. */
export interface SlotBatches {
  readonly slot: number
  readonly parent: number
  /** The node that signs. */
  readonly leader: number
  readonly batches: readonly Uint8Array[]
}

/** What a cluster changes about the shreds of a block. */
export interface ShredScript {
  /** The node that leads a slot. */
  leaderOf(slot: number): number
  /** The batches of a block, and the parent that its shreds name. */
  batchesOf(
    block: BlockMetaContent & { readonly slot: number },
    entries: readonly EntryContent[],
    transactions: readonly TransactionContent[],
  ): { readonly parent: number; readonly batches: readonly Uint8Array[] }
}

const plainScript: ShredScript = {
  leaderOf: () => 0,
  batchesOf: ({ parentSlot }, entries, transactions) => ({
    parent: parentSlot,
    batches: [encodeEntries(entries, transactions)],
  }),
}

/** Ignores the chain until it has a target. */
export class ShredFeed implements SolanaSink {
  readonly #deps: SupervisorDeps
  script = plainScript
  #worker: DedicatedWorker | null = null
  #version = defaultVersion
  #slot = -1
  #entries: EntryContent[] = []
  #transactions: TransactionContent[] = []

  constructor(deps: SupervisorDeps) {
    this.#deps = deps
  }

  /** Shred version of the cluster. */
  get version(): number {
    return this.#version
  }

  /** Sends to this address from now on, and to no other. `seed`: that of the chain's keys. */
  async sendTo(target: ShredTarget, seed: Uint8Array): Promise<void> {
    await this.stop()
    this.#version = target.version
    this.#worker = await DedicatedWorker.start(
      { name: 'shred feed', entry: 'shred-feed', data: { ...target, seed } },
      this.#deps,
    )
  }

  status(_change: SlotChange): void {}

  account(_slot: number, _content: AccountContent): void {}

  transaction(slot: number, content: TransactionContent): void {
    if (this.#takes(slot)) this.#transactions.push(content)
  }

  entry(slot: number, content: EntryContent): void {
    if (this.#takes(slot)) this.#entries.push(content)
  }

  /** The slot is complete. It is dropped while the worker restarts, as packets may be. */
  block(slot: number, meta: BlockMetaContent): void {
    if (!this.#takes(slot)) return
    const block = { ...meta, slot }
    const { script } = this
    const { parent: named, batches } = script.batchesOf(block, this.#entries, this.#transactions)
    const parent = Math.max(named, slot - parentOffsetMax)
    const message: SlotBatches = { slot, parent, leader: script.leaderOf(slot), batches }
    this.#worker?.post(message)
  }

  async stop(): Promise<void> {
    const worker = this.#worker
    this.#worker = null
    await worker?.stop()
  }

  #takes(slot: number): boolean {
    if (this.#worker === null) return false
    if (slot === this.#slot) return true
    this.#slot = slot
    this.#entries = []
    this.#transactions = []
    return true
  }
}

// Encodes entry batches, the content of data shreds' joined payloads.
//
//   count u64 | entry … entry: hashes u64 | hash 32 | transactions u64 | transaction bytes …
//
// A batch ends with the shred that is marked complete; it begins after the previous such shred, or
// at index 0. A transaction is written in its wire format.

const countBytes = 8
const entryHeadBytes = 48
const hashBytes = 32

/** A batch of entries; `transactions` are those of the slot, in order. */
export function encodeEntries(
  entries: readonly EntryContent[],
  transactions: readonly TransactionContent[],
): Uint8Array {
  const parts: Uint8Array[] = [u64(entries.length)]
  for (const entry of entries) {
    const head = new Uint8Array(entryHeadBytes)
    const view = new DataView(head.buffer)
    view.setBigUint64(0, BigInt(entry.numHashes), true)
    head.set(entry.hash.subarray(0, hashBytes), countBytes)
    const start = entry.startingTransactionIndex
    const own = transactions.slice(start, start + entry.executedTransactionCount)
    view.setBigUint64(countBytes + hashBytes, BigInt(own.length), true)
    parts.push(head, ...own.map(transactionBytes))
  }
  return Buffer.concat(parts)
}

function u64(value: number): Uint8Array {
  const bytes = new Uint8Array(countBytes)
  new DataView(bytes.buffer).setBigUint64(0, BigInt(value), true)
  return bytes
}

// Turns entry batches of a slot into signed shreds, byte for byte as a validator does.
// One maker per leader; slots follow one another through it.
//
//   batch ─► 32 payloads a set ─► parity ─► 64 leaves ─► root ─► one signature for all 64
//
// The last set of a slot is a resigned one: 64 bytes less payload in each shred, for the signature
// that a retransmitter writes there (zeros here). It takes the batch's last bytes, so that the
// padding of a batch is at the end of the set before it.

export interface MakerOptions {
  /** The cluster's shred version. */
  readonly version: number
  /** The leader's Ed25519 signature, 64 bytes, over a merkle root. */
  sign(root: Uint8Array): Uint8Array
  /** Root that the first set is chained to; zeros when unknown. */
  readonly chainedRoot?: Uint8Array
}

export interface SlotStart {
  readonly slot: number
  readonly parent: number
}

export interface BatchAbout {
  readonly isLastInSlot: boolean
  /** Ticks since the start of the slot; 63 at most. */
  readonly tick: number
}

interface SetPlan extends BatchAbout {
  readonly payload: Uint8Array
  readonly isLastOfBatch: boolean
}

export class ShredMaker {
  readonly #options: MakerOptions
  #chainedRoot: Uint8Array
  #slot: SlotStart = { slot: 0, parent: 0 }
  /** Index of the next set's first data shred, and of its first code shred. */
  #next = 0

  constructor(options: MakerOptions) {
    this.#options = options
    this.#chainedRoot = options.chainedRoot ?? new Uint8Array(rootBytes)
  }

  startSlot(slot: SlotStart): void {
    this.#slot = slot
    this.#next = 0
  }

  /** The shreds of a batch: for each set 32 data shreds, then 32 code shreds. */
  make(batch: Uint8Array, about: BatchAbout): Uint8Array[] {
    const wide = setShreds * dataCapacityOf(variants.data)
    const narrow = about.isLastInSlot ? setShreds * dataCapacityOf(variants.dataResigned) : 0
    const wideBytes = Math.max(0, batch.length - narrow)
    const made: Uint8Array[] = []
    for (let at = 0; at < wideBytes; at += wide) {
      const end = Math.min(at + wide, wideBytes)
      const isLastOfBatch = end === wideBytes && !about.isLastInSlot
      const payload = batch.subarray(at, end)
      made.push(...this.#makeSet({ payload, isLastOfBatch, tick: about.tick, isLastInSlot: false }))
    }
    if (about.isLastInSlot)
      made.push(
        ...this.#makeSet({ ...about, payload: batch.subarray(wideBytes), isLastOfBatch: true }),
      )
    return made
  }

  #makeSet(plan: SetPlan): Uint8Array[] {
    const dataVariant = plan.isLastInSlot ? variants.dataResigned : variants.data
    const codeVariant = plan.isLastInSlot ? variants.codeResigned : variants.code
    const data = this.#makeData(plan, dataVariant)
    const code = Array.from({ length: setShreds }, (_, position) => {
      const shred = this.#common(codeShredBytes, codeVariant, this.#next + position)
      const view = viewOf(shred)
      view.setUint16(offsets.dataCount, setShreds, true)
      view.setUint16(offsets.codeCount, setShreds, true)
      view.setUint16(offsets.position, position, true)
      return shred
    })
    encodeParity(
      data.map((shred) => shred.subarray(signatureBytes, chainedRootAt(dataVariant))),
      code.map((shred) => shred.subarray(offsets.codePayload, chainedRootAt(codeVariant))),
    )
    const shreds = [...data, ...code]
    const { root, layers } = treeOf(shreds)
    const signature = this.#options.sign(root)
    for (const [leaf, shred] of shreds.entries()) {
      shred.set(signature)
      writeProof(shred, leaf, layers)
    }
    this.#chainedRoot = root
    this.#next += setShreds
    return shreds
  }

  #makeData(plan: SetPlan, variant: number): Uint8Array[] {
    const capacity = dataCapacityOf(variant)
    return Array.from({ length: setShreds }, (_, inSet) => {
      const shred = this.#common(dataShredBytes, variant, this.#next + inSet)
      const payload = plan.payload.subarray(inSet * capacity, (inSet + 1) * capacity)
      const isLast = inSet === setShreds - 1 && plan.isLastOfBatch
      const mark = plan.isLastInSlot ? flagBits.lastInSlot : flagBits.dataComplete
      const view = viewOf(shred)
      view.setUint16(offsets.parent, this.#slot.slot - this.#slot.parent, true)
      view.setUint8(offsets.flags, Math.min(plan.tick, flagBits.tick) | (isLast ? mark : 0))
      view.setUint16(offsets.size, offsets.dataPayload + payload.length, true)
      shred.set(payload, offsets.dataPayload)
      return shred
    })
  }

  #common(bytes: number, variant: number, index: number): Uint8Array {
    const shred = new Uint8Array(bytes)
    const view = viewOf(shred)
    view.setUint8(offsets.variant, variant)
    view.setBigUint64(offsets.slot, BigInt(this.#slot.slot), true)
    view.setUint32(offsets.index, index, true)
    view.setUint16(offsets.version, this.#options.version, true)
    view.setUint32(offsets.set, this.#next, true)
    shred.set(this.#chainedRoot, chainedRootAt(variant))
    return shred
  }
}

function viewOf(shred: Uint8Array): DataView {
  return new DataView(shred.buffer, shred.byteOffset, shred.length)
}
