// Builds events one at a time in reused buffers and delivers them to the sink.
// Thread: source worker. Callers fill `payload` from `begin`, set the flow tags, then `emit`.
// Sequence numbers start at 1; payload offsets grow like a real writer's, 16-byte aligned.
import { descriptor, payloadAlignBytes } from '../../../chain/evm/event-ring.ts'
import { writeU16, writeU32, writeU64 } from '../../../chain/evm/words.ts'
import type { ExecutionSink } from '../../ports.ts'

/** Longest payload that the generator writes. */
const payloadBytesMax = 16 * 1024
const two32 = 0x1_0000_0000

export class EventWriter {
  /** Transaction index + 1; 0 outside a transaction. */
  txn = 0
  account = 0
  /** Sequence number of the open block's BlockStart; 0 outside a block. */
  blockSeqno = 0
  /** Nanoseconds since the time given to `setTime`. */
  timeNs = 0
  readonly #sink: ExecutionSink
  readonly #payload = new Uint8Array(payloadBytesMax)
  readonly #descriptor = new Uint8Array(descriptor.bytes)
  /** One view per payload length that occurred, so that an event allocates no object. */
  readonly #views: Uint8Array[] = []
  #seqno = 0
  #payloadByte = 0
  #baseLow = 0
  #baseHigh = 0

  constructor(sink: ExecutionSink) {
    this.#sink = sink
  }

  get nextSeqno(): number {
    return this.#seqno + 1
  }

  /** Sets the wall time that `timeNs` counts from; milliseconds since 1970, fractions allowed. */
  setTime(wallMs: number): void {
    // Computed from whole microseconds: nanoseconds since 1970 do not fit a double.
    const baseNs = BigInt(Math.round(wallMs * 1000)) * 1000n
    this.#baseLow = Number(baseNs & 0xffff_ffffn)
    this.#baseHigh = Number(baseNs >> 32n)
    this.timeNs = 0
  }

  /** The scratch payload with its first `size` bytes zero. */
  begin(size: number): Uint8Array {
    return this.#payload.fill(0, 0, size)
  }

  emit(type: number, size: number): void {
    const bytes = this.#descriptor
    this.#seqno += 1
    writeU64(bytes, descriptor.seqno, this.#seqno)
    writeU16(bytes, descriptor.type, type)
    writeU32(bytes, descriptor.payloadSize, size)
    const low = this.#baseLow + this.timeNs
    writeU32(bytes, descriptor.timeNs, low % two32)
    writeU32(bytes, descriptor.timeNs + 4, this.#baseHigh + Math.floor(low / two32))
    writeU64(bytes, descriptor.payloadOffset, this.#payloadByte)
    writeU64(bytes, descriptor.blockSeqno, this.blockSeqno)
    writeU32(bytes, descriptor.txn, this.txn)
    writeU32(bytes, descriptor.account, this.account)
    this.#payloadByte += Math.ceil(size / payloadAlignBytes) * payloadAlignBytes
    let view = this.#views[size]
    if (view === undefined) {
      view = this.#payload.subarray(0, size)
      this.#views[size] = view
    }
    this.#sink.event(bytes, view)
  }

  flush(): void {
    this.#sink.flush()
  }
}
