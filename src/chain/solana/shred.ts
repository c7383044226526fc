// Reads the wire format of a Solana shred: field offsets, and whether it is well formed.
// Works on a window of a larger buffer: `at` is the first byte.
//
//   0 signature 64 | 64 variant | 65 slot u64 | 73 index u32 | 77 version u16 | 79 set u32 | 83
//   data: 83 parent offset u16 | 85 flags | 86 size u16 | 88 payload …
//   code: 83 data count u16 | 85 code count u16 | 87 position u16 | 89 parity …
//   both end: … | chained root 32 | proof 6 x 20 | retransmitter signature 64 where resigned
//
// Only chained merkle shreds of full sets (32 data, 32 code) exist on today's clusters, so that
// four variant bytes are all there is.

export const dataShredBytes = 1203
export const codeShredBytes = 1228
/** A repair response appends a nonce of four bytes to the shred. */
const nonceBytes = 4
export const setShreds = 32
/** Shreds of one kind in a slot; a protocol bound. */
export const slotShredsMax = 32_768

export const signatureBytes = 64
export const rootBytes = 32
export const proofEntryBytes = 20
export const proofEntries = 6

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
export type Flaw = (typeof flaws)[keyof typeof flaws]

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
