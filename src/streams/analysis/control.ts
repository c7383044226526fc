// Defines the messages of the control ring: block-level events, gaps, the end.
// They go from the source thread to the main thread, which sees nothing else of the source, so its
// work does not grow with the number of transactions.
//
//   tag 1, event   0 read at f64 (main's monotonic ms)   8 from f64   16 to f64 (event ring)
//                 24 first seqno f64   32 transactions f64   40 wall time f64 (ns)   48 status f64
//                 56 0   64 descriptor[64]   128 payload
//   tag 2, gap     0 read at f64   8 from f64   16 to f64
//   tag 3, ended   (empty)
import { descriptor } from '../../chain/evm/event-ring.ts'
import { readU16, readU64, readU64Exact } from '../../chain/evm/words.ts'

export const controlTag = { event: 1, gap: 2, ended: 3 } as const
export const eventHeadBytes = 64
export const gapBytes = 24

/** State of a block's records; sent with its BlockEnd. */
export const rangeStatus = {
  /** Not a BlockEnd, or one whose block was not seen from its start. */
  none: 0,
  /** All its records are from `from` to `to`. */
  whole: 1,
  /** It did not fit the event ring. */
  tooLarge: 2,
} as const

export interface ControlEvent {
  readonly kind: 'event'
  readonly readAtMs: number
  readonly type: number
  readonly seqno: number
  readonly timeNs: bigint
  /** Seqno of the BlockStart of the block it belongs to; 0 = none. */
  readonly blockSeqno: number
  readonly payload: Uint8Array
  /** Only with BlockEnd: its block's records in the event ring, and their counts. */
  readonly status: number
  readonly from: number
  readonly to: number
  readonly firstSeqno: number
  readonly txnCount: number
  readonly wallNs: number
}

export interface ControlGap {
  readonly kind: 'gap'
  readonly readAtMs: number
  readonly from: number
  readonly to: number
}

export type Control = ControlEvent | ControlGap | { readonly kind: 'ended' }

/** Parses one message; `bytes` must be a private copy. Null for malformed bytes. */
export function parseControl(tag: number, bytes: Uint8Array): Control | null {
  if (tag === controlTag.ended) return { kind: 'ended' }
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
  if (tag === controlTag.gap && bytes.length === gapBytes)
    return { kind: 'gap', readAtMs: at(view, 0), from: at(view, 8), to: at(view, 16) }
  if (tag !== controlTag.event || bytes.length < eventHeadBytes + descriptor.bytes) return null
  const head = bytes.subarray(eventHeadBytes)
  return {
    kind: 'event',
    readAtMs: at(view, 0),
    from: at(view, 8),
    to: at(view, 16),
    firstSeqno: at(view, 24),
    txnCount: at(view, 32),
    wallNs: at(view, 40),
    status: at(view, 48),
    type: readU16(head, descriptor.type),
    seqno: readU64(head, descriptor.seqno),
    timeNs: readU64Exact(head, descriptor.timeNs),
    blockSeqno: readU64(head, descriptor.blockSeqno),
    payload: head.subarray(descriptor.bytes),
  }
}

function at(view: DataView, offset: number): number {
  return view.getFloat64(offset, true)
}
