// Records the events of an execution source, for tests: counts by type, order, optionally bytes.
import { computedPayloadSize } from '../../src/chain/evm/event-payload.ts'
import { descriptor } from '../../src/chain/evm/event-ring.ts'
import { readU16, readU32, readU64 } from '../../src/chain/evm/words.ts'
import type { ExecutionSink } from '../../src/upstream/ports.ts'

export interface SeenEvent {
  readonly seqno: number
  readonly type: number
  readonly descriptor: Uint8Array
  readonly payload: Uint8Array
}

export class SeenEvents implements ExecutionSink {
  readonly counts = new Map<number, number>()
  readonly gaps: { from: number; to: number }[] = []
  /** Kept only with `isKeeping`. */
  readonly events: SeenEvent[] = []
  total = 0
  flushes = 0
  lastSeqno = 0
  /** Events whose payload size is not what its own length fields give, or not the descriptor's. */
  misshapen = 0
  /** Events whose sequence number does not follow the one before (or a reported gap). */
  jumps = 0
  onEvent: (event: SeenEvent) => void = () => {}
  readonly #isKeeping: boolean

  constructor({ keep = false }: { keep?: boolean } = {}) {
    this.#isKeeping = keep
  }

  event(bytes: Uint8Array, from: Uint8Array, at = 0, length = from.length): void {
    const payload = from.subarray(at, at + length)
    const seqno = readU64(bytes, descriptor.seqno)
    const type = readU16(bytes, descriptor.type)
    this.total += 1
    this.counts.set(type, this.count(type) + 1)
    if (seqno !== this.lastSeqno + 1 && this.total > 1) this.jumps += 1
    this.lastSeqno = seqno
    if (computedPayloadSize(type, payload) !== payload.length) this.misshapen += 1
    if (readU32(bytes, descriptor.payloadSize) !== payload.length) this.misshapen += 1
    const event = { seqno, type, descriptor: bytes, payload }
    if (this.#isKeeping)
      this.events.push({ ...event, descriptor: bytes.slice(), payload: payload.slice() })
    this.onEvent(event)
  }

  gap(from: number, to: number): void {
    this.gaps.push({ from, to })
    this.lastSeqno = to
  }

  flush(): void {
    this.flushes += 1
  }

  count(type: number): number {
    return this.counts.get(type) ?? 0
  }
}
