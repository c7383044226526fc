// Parses the Monad event ring file: header, descriptors, payload buffer.
// All integers are little-endian. Sequence numbers start at 1 and fit a JS number in practice.
//
//   0          2 MiB                        + 64 x capacity           + payload bytes
//   | header   | descriptors (64 bytes each)| payload buffer (circular)| context area |
//
//   header      0 magic "RING01"   6 u16 content type   8 schema hash[32]
//              40 u64 descriptor capacity  48 u64 payload bytes  56 u64 context bytes
//              64 u64 last seqno  72 u64 next payload byte (virtual)
//             128 u64 buffer window start (virtual): payloads below it may be overwritten
//
//   descriptor  0 u64 seqno, written last and 0 while being written   8 u16 event type
//              12 u32 payload size   16 u64 record time, ns since 1970
//              24 u64 payload offset (virtual; & (payload bytes - 1) is the real one)
//              32 u64 seqno of the block's BlockStart, 0 outside a block
//              40 u64 transaction index + 1, 0 = none   48 u64 index in the account list
import { accept, type Outcome, refuse } from '../../base/errors.ts'
import { readU16, readU64 } from './words.ts'

export const ringHeader = {
  /** The header page; descriptors begin after it. */
  pageBytes: 2 * 1024 * 1024,
  /** Bytes of the page that contain fields. */
  usedBytes: 136,
  magic: 0,
  contentType: 6,
  schemaHash: 8,
  capacity: 40,
  payloadBytes: 48,
  contextBytes: 56,
  lastSeqno: 64,
  nextPayloadByte: 72,
  windowStart: 128,
} as const

export const descriptor = {
  bytes: 64,
  seqno: 0,
  type: 8,
  payloadSize: 12,
  timeNs: 16,
  payloadOffset: 24,
  blockSeqno: 32,
  /** Transaction index + 1; 0 = outside a transaction. */
  txn: 40,
  account: 48,
} as const

export const ringMagic = 'RING01'
export const contentTypeExecution = 2
/** The schema this build reads: execution-events SDK v1.0 (October 2025) and later. */
export const schemaHash = '8933f907c432c98ac0c8db62f9aa164c0c3f1672f41290e4ea3408df6c6723f3'
/** The schema before 27 August 2025: other codes and layouts, refused with its own error code. */
export const oldSchemaHash = 'ddc58d9afcabb6ae55d525d281ef9fd2f9b4dbceb27ac118067cdafd70e9016b'

/** The writer moves the window of valid payloads in steps of this many bytes. */
export const windowStepBytes = 2 ** 24
/** Payload allocations are aligned to this. */
export const payloadAlignBytes = 16

const capacityMin = 2 ** 16
const capacityMax = 2 ** 32
const payloadBytesMin = 2 ** 27
const payloadBytesMax = 2 ** 40

export interface RingGeometry {
  /** Descriptors; a power of two. */
  readonly capacity: number
  /** Bytes of the payload buffer; a power of two. */
  readonly payloadBytes: number
  /** File offset of the first payload byte. */
  readonly payloadBase: number
  /** Computed file size; recorded files may lack a tail of zeros. */
  readonly fileBytes: number
}

/** Parses a ring file's header (`ringHeader.usedBytes` or more). Refusals describe the file. */
export function parseRingHeader(header: Uint8Array): Outcome<RingGeometry> {
  if (header.length < ringHeader.usedBytes)
    return no('ring_truncated', `the file ends inside the ring header (${header.length} bytes)`)
  if (latin1(header, ringHeader.magic, ringMagic.length) !== ringMagic)
    return no('ring_magic', `not a Monad event ring: the file does not begin with ${ringMagic}`)
  const contentType = readU16(header, ringHeader.contentType)
  if (contentType !== contentTypeExecution)
    return no(
      'ring_content_type',
      `this event ring has content type ${contentType}, not ${contentTypeExecution} (execution)`,
    )
  const hash = Buffer.from(
    header.subarray(ringHeader.schemaHash, ringHeader.schemaHash + 32),
  ).toString('hex')
  if (hash === oldSchemaHash)
    return no(
      'ring_schema_old',
      `this event ring has the old schema ${hash} (before 27 August 2025), not ${schemaHash}`,
    )
  if (hash !== schemaHash)
    return no(
      'ring_schema_unknown',
      `this event ring has the unknown schema ${hash}, not ${schemaHash}`,
    )
  const capacity = readU64(header, ringHeader.capacity)
  const payloadBytes = readU64(header, ringHeader.payloadBytes)
  if (!isPowerOfTwo(capacity) || capacity < capacityMin || capacity > capacityMax)
    return no('ring_geometry', `descriptor capacity ${capacity} is not a power of two in bounds`)
  if (
    !isPowerOfTwo(payloadBytes) ||
    payloadBytes < payloadBytesMin ||
    payloadBytes > payloadBytesMax
  )
    return no('ring_geometry', `payload size ${payloadBytes} is not a power of two in bounds`)
  const payloadBase = ringHeader.pageBytes + capacity * descriptor.bytes
  const contextBytes = readU64(header, ringHeader.contextBytes)
  const fileBytes = payloadBase + payloadBytes + contextBytes
  return accept({ capacity, payloadBytes, payloadBase, fileBytes })
}

/** File offset of the descriptor of a sequence number (from 1). */
export function descriptorOffset(geometry: RingGeometry, seqno: number): number {
  return ringHeader.pageBytes + ((seqno - 1) % geometry.capacity) * descriptor.bytes
}

/** File offset of a payload's first byte; the payload may wrap around to `payloadBase`. */
export function payloadOffset(geometry: RingGeometry, virtualOffset: number): number {
  return geometry.payloadBase + (virtualOffset % geometry.payloadBytes)
}

function isPowerOfTwo(value: number): boolean {
  return Number.isSafeInteger(value) && value > 0 && Number.isInteger(Math.log2(value))
}

function latin1(bytes: Uint8Array, at: number, length: number): string {
  return String.fromCharCode(...bytes.subarray(at, at + length))
}

function no(code: string, message: string): Outcome<never> {
  return refuse('invalid', code, message)
}
