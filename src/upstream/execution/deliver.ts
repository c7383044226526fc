// Validates an event before it enters the execution pipeline. Thread: source worker.
// An event that the writer could not record, or whose layout does not match its type, is reported
// as a gap: a block with a missing event is never analysed as if it were whole.
import { isWellFormed } from '../../chain/evm/event-payload.ts'
import { descriptor } from '../../chain/evm/event-ring.ts'
import { EventType } from '../../chain/evm/event-type.ts'
import { readU16, readU64 } from '../../chain/evm/words.ts'
import type { ExecutionSink } from '../ports.ts'

export function deliver(
  sink: ExecutionSink,
  bytes: Uint8Array,
  payload: Uint8Array,
  at = 0,
  length = payload.length,
): void {
  const type = readU16(bytes, descriptor.type)
  if (type !== EventType.RecordError && isWellFormed(type, payload, at, length)) {
    sink.event(bytes, payload, at, length)
    return
  }
  const seqno = readU64(bytes, descriptor.seqno)
  sink.gap(seqno, seqno)
}
