// Reads the wire format of a Solana shred: field offsets, whether it is well formed, its merkle
// root; and counts what is missing of a slot.
// Works on a window of a larger buffer: `at` is the first byte.
//
//   0 signature 64 | 64 variant | 65 slot u64 | 73 index u32 | 77 version u16 | 79 set u32 | 83
//   data: 83 parent offset u16 | 85 flags | 86 size u16 | 88 payload …
//   code: 83 data count u16 | 85 code count u16 | 87 position u16 | 89 parity …
//   both end: … | chained root 32 | proof 6 x 20 | retransmitter signature 64 where resigned
//
// Only chained merkle shreds of full sets (32 data, 32 code) exist on today's clusters, so that
// four variant bytes are all there is.
import { createHash } from 'node:crypto'
import { finish, type Steps } from '../../base/steps.ts'

export const dataShredBytes = 1203
export const codeShredBytes = 1228
/** A repair response appends a nonce of four bytes to the shred. */
const nonceBytes = 4
export const setShreds = 32
/** Shreds of one kind in a slot; a protocol bound. */
export const slotShredsMax = 32_768

export const signatureBytes = 64
export const rootBytes = 32
const proofEntryBytes = 20
const proofEntries = 6

export const variants = { data: 0x96, code: 0x66, dataResigned: 0xb6, codeResigned: 0x76 } as const

export const offsets = {
  variant: 64,
  slot: 65,
  index: 73,
  version: 77,
  set: 79,
  parent: 83,
  flags: 85,
  size: 86,
  dataPayload: 88,
  dataCount: 83,
  codeCount: 85,
  position: 87,
  codePayload: 89,
} as const

export const flagBits = { tick: 0x3f, dataComplete: 0x40, lastInSlot: 0xc0 } as const

/** What can be wrong with a single packet; 0 is no flaw. */
export const flaws = { none: 0, size: 1, variant: 2, version: 3, slot: 4, layout: 5 } as const
type Flaw = (typeof flaws)[keyof typeof flaws]

/** Slots are counted since 2020; all of them are below this and safe integers. */
const slotMax = 2 ** 48

/**
 * The first flaw of a packet of `length` bytes at `at`, by the rules of today's clusters. `version`
 * is the cluster's, 0 for any. The caller decides whether the slot is plausible.
 */
export function flawOf(bytes: Uint8Array, at: number, length: number, version: number): Flaw {
  if (length < dataShredBytes || length > codeShredBytes + nonceBytes) return flaws.size
  const isCode = isCodeVariant(bytes[at + offsets.variant]!)
  if (isCode === null) return flaws.variant
  const bytesMin = isCode ? codeShredBytes : dataShredBytes
  if (length < bytesMin || length > bytesMin + nonceBytes) return flaws.size
  if (version !== 0 && u16(bytes, at + offsets.version) !== version) return flaws.version
  if (u32(bytes, at + offsets.slot + 4) >= slotMax / 2 ** 32) return flaws.slot
  const index = u32(bytes, at + offsets.index)
  const set = u32(bytes, at + offsets.set)
  if (index >= slotShredsMax || set >= slotShredsMax || set % setShreds !== 0) return flaws.layout
  const isFine = isCode ? isCodeFine(bytes, at, index) : isDataFine(bytes, at, index - set)
  return isFine ? flaws.none : flaws.layout
}

/** True for code, false for data, null for a variant that no cluster sends. */
export function isCodeVariant(variant: number): boolean | null {
  if (variant === variants.data || variant === variants.dataResigned) return false
  return variant === variants.code || variant === variants.codeResigned ? true : null
}

export function isResigned(variant: number): boolean {
  return variant === variants.dataResigned || variant === variants.codeResigned
}

/** Bytes of the shred itself, without an appended nonce. */
export function shredBytesOf(variant: number): number {
  return isCodeVariant(variant) === true ? codeShredBytes : dataShredBytes
}

export function proofAt(variant: number): number {
  const end = shredBytesOf(variant) - (isResigned(variant) ? signatureBytes : 0)
  return end - proofEntries * proofEntryBytes
}

export function chainedRootAt(variant: number): number {
  return proofAt(variant) - rootBytes
}

/** Bytes that one data shred of the variant can carry. */
export function dataCapacityOf(variant: number): number {
  return chainedRootAt(variant) - offsets.dataPayload
}

export function slotOf(bytes: Uint8Array, at = 0): number {
  return u32(bytes, at + offsets.slot) + u32(bytes, at + offsets.slot + 4) * 2 ** 32
}

export function indexOf(bytes: Uint8Array, at = 0): number {
  return u32(bytes, at + offsets.index)
}

export function versionOf(bytes: Uint8Array, at = 0): number {
  return u16(bytes, at + offsets.version)
}

export function setOf(bytes: Uint8Array, at = 0): number {
  return u32(bytes, at + offsets.set)
}

function positionOf(bytes: Uint8Array, at = 0): number {
  return u16(bytes, at + offsets.position)
}

export function flagsOf(bytes: Uint8Array, at = 0): number {
  return bytes[at + offsets.flags]!
}

/** Its index in the 64 leaves of its set: data first, then code. */
export function leafOf(bytes: Uint8Array, at = 0): number {
  const isCode = isCodeVariant(bytes[at + offsets.variant]!) === true
  return isCode ? setShreds + positionOf(bytes, at) : indexOf(bytes, at) - setOf(bytes, at)
}

function isCodeFine(bytes: Uint8Array, at: number, index: number): boolean {
  const position = u16(bytes, at + offsets.position)
  return (
    u16(bytes, at + offsets.dataCount) === setShreds &&
    u16(bytes, at + offsets.codeCount) === setShreds &&
    position < setShreds &&
    index >= position
  )
}

function isDataFine(bytes: Uint8Array, at: number, inSet: number): boolean {
  if (inSet < 0 || inSet >= setShreds) return false
  const flags = bytes[at + offsets.flags]!
  const isComplete = (flags & flagBits.dataComplete) !== 0
  // The last bit alone means nothing; both flags occur only on the last shred of a set.
  if (!isComplete && (flags & 0x80) !== 0) return false
  if (isComplete && inSet !== setShreds - 1) return false
  const size = u16(bytes, at + offsets.size)
  if (size < offsets.dataPayload) return false
  if (size > chainedRootAt(bytes[at + offsets.variant]!)) return false
  const parent = u16(bytes, at + offsets.parent)
  const slot = slotOf(bytes, at)
  return parent <= slot && (parent !== 0 || slot === 0)
}

function u16(bytes: Uint8Array, at: number): number {
  return bytes[at]! | (bytes[at + 1]! << 8)
}

function u32(bytes: Uint8Array, at: number): number {
  const low = bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16)
  return (low | (bytes[at + 3]! << 24)) >>> 0
}

// Counts received and missing shreds per slot.

/** Slots kept at once; a shred of an older one counts as late. */
const slotsMax = 64

export interface SlotTally {
  readonly slot: number
  data: number
  code: number
  duplicates: number
  /** Highest data index plus one: how many there should be, as far as is known. */
  dataEnd: number
  /** The shred that ends the slot has arrived. */
  isLastKnown: boolean
  /** When its first and its newest shred arrived. */
  readonly firstMs: number
  lastMs: number
}

interface OpenSlot extends SlotTally {
  readonly seen: Uint8Array
}

export class ShredTally {
  readonly #slots = new Map<number, OpenSlot>()
  /** Slots that `takeFinished` has returned. */
  readonly #returned = new Set<number>()
  shreds = 0
  bytes = 0
  duplicates = 0
  flawed = 0
  late = 0

  /** Counts a datagram; false when it is not a shred. */
  add(packet: Uint8Array, nowMs: number): boolean {
    if (flawOf(packet, 0, packet.length, 0) !== flaws.none) {
      this.flawed += 1
      return false
    }
    const slot = this.#slotOf(slotOf(packet), nowMs)
    if (slot === null) {
      this.late += 1
      return true
    }
    const isCode = isCodeVariant(packet[offsets.variant]!) === true
    const id = indexOf(packet) + (isCode ? slotShredsMax : 0)
    if ((slot.seen[id >> 3]! & (1 << (id & 7))) !== 0) {
      slot.duplicates += 1
      this.duplicates += 1
      return true
    }
    slot.seen[id >> 3]! |= 1 << (id & 7)
    slot.lastMs = nowMs
    this.shreds += 1
    this.bytes += packet.length
    if (isCode) slot.code += 1
    else {
      slot.data += 1
      slot.dataEnd = Math.max(slot.dataEnd, indexOf(packet) + 1)
      if ((flagsOf(packet) & flagBits.lastInSlot) === flagBits.lastInSlot) slot.isLastKnown = true
    }
    return true
  }

  /** Finished slots, oldest first: all shreds arrived, or newer slots have begun. */
  takeFinished(): SlotTally[] {
    const slots = [...this.#slots.values()].sort((a, b) => a.slot - b.slot)
    const newest = slots.at(-1)?.slot ?? 0
    const isOver = (slot: OpenSlot) =>
      slot.slot < newest - 1 || (slot.isLastKnown && slot.data + slot.code === 2 * slot.dataEnd)
    const finished = slots.filter((slot) => isOver(slot) && !this.#returned.has(slot.slot))
    for (const { slot } of finished) this.#returned.add(slot)
    for (const slot of this.#returned) if (!this.#slots.has(slot)) this.#returned.delete(slot)
    return finished
  }

  #slotOf(slot: number, nowMs: number): OpenSlot | null {
    const known = this.#slots.get(slot)
    if (known !== undefined) return known
    if (this.#slots.size >= slotsMax) {
      const oldest = Math.min(...this.#slots.keys())
      if (slot < oldest) return null
      this.#slots.delete(oldest)
    }
    const opened: OpenSlot = {
      slot,
      data: 0,
      code: 0,
      duplicates: 0,
      dataEnd: 0,
      isLastKnown: false,
      firstMs: nowMs,
      lastMs: nowMs,
      seen: new Uint8Array((2 * slotShredsMax) / 8),
    }
    this.#slots.set(slot, opened)
    return opened
  }
}

// Computes the merkle root of a set from one shred, and builds the tree and proofs of all 64.
// The leader signs the root; a shred whose proof leads to it is the leader's.
//
//   root 32 ── node ── node ── … six layers … ── leaf = hash of the shred without its signature,
//                                                       proof and retransmitter signature

const leafPrefix = Buffer.from('\u0000SOLANA_MERKLE_SHREDS_LEAF', 'latin1')
const nodePrefix = Buffer.from('\u0001SOLANA_MERKLE_SHREDS_NODE', 'latin1')
const leaves = 2 * setShreds
/** Hashes per step of building a tree. */
const leavesPerStep = 8
const nodesPerStep = 16

interface MerkleTree {
  readonly root: Buffer
  readonly layers: readonly Buffer[][]
}

/** The root that the proof inside a well-formed shred leads to. */
export function rootOf(shred: Uint8Array): Buffer {
  const proof = proofAt(shred[offsets.variant]!)
  let hash = leafHash(shred)
  let index = leafOf(shred)
  for (let layer = 0; layer < proofEntries; layer += 1) {
    const start = proof + layer * proofEntryBytes
    const sibling = shred.subarray(start, start + proofEntryBytes)
    hash = (index & 1) === 0 ? nodeHash(hash, sibling) : nodeHash(sibling, hash)
    index >>= 1
  }
  return hash
}

/** Builds the tree over all 64 shreds of a set, in the order of their leaves. */
export function treeOf(shreds: readonly Uint8Array[]): MerkleTree {
  return finish(buildTree(shreds))
}

/** The same in steps of a few hashes. */
export function* buildTree(shreds: readonly Uint8Array[]): Steps<MerkleTree> {
  let layer: Buffer[] = []
  for (const shred of shreds) {
    layer.push(leafHash(shred))
    if (layer.length % leavesPerStep === 0) yield
  }
  const layers: Buffer[][] = []
  let nodes = 0
  while (layer.length > 1) {
    layers.push(layer)
    const above: Buffer[] = []
    for (let at = 0; at < layer.length; at += 2) {
      above.push(nodeHash(layer[at]!, layer[at + 1]!))
      nodes += 1
      if (nodes % nodesPerStep === 0) yield
    }
    layer = above
  }
  return { root: layer[0]!, layers }
}

/** Writes into a shred the proof of its leaf. */
export function writeProof(shred: Uint8Array, leaf: number, layers: readonly Buffer[][]): void {
  let at = proofAt(shred[offsets.variant]!)
  for (const [depth, layer] of layers.entries()) {
    const sibling = layer[(leaf >> depth) ^ 1]!
    shred.set(sibling.subarray(0, proofEntryBytes), at)
    at += proofEntryBytes
  }
}

function leafHash(shred: Uint8Array): Buffer {
  const variant = shred[offsets.variant]!
  const end = Math.min(proofAt(variant), shredBytesOf(variant))
  const covered = shred.subarray(offsets.variant, end)
  return createHash('sha256').update(leafPrefix).update(covered).digest()
}

/** Only the first 20 bytes of a child go into its parent; only the root keeps all 32. */
function nodeHash(left: Uint8Array, right: Uint8Array): Buffer {
  return createHash('sha256')
    .update(nodePrefix)
    .update(left.subarray(0, proofEntryBytes))
    .update(right.subarray(0, proofEntryBytes))
    .digest()
}

/** Leaves of a full tree; a set has no other size. */
export const treeLeaves = leaves
