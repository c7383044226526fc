// The last check before an event enters the road. Thread: source worker.
// What the writer could not record, or what does not have the shape of its type, is told as lost:
// a block with a hole is never analysed as if it were whole.
import { isWellFormed } from '../../evm/event-payload.ts'
import { descriptor } from '../../evm/event-ring.ts'
import { EventType } from '../../evm/event-type.ts'
import { readU16, readU64 } from '../../evm/words.ts'
import type { ExecutionSink } from '../ports.ts'

export function deliver(sink: ExecutionSink, bytes: Uint8Array, payload: Uint8Array): void {
  const type = readU16(bytes, descriptor.type)
  if (type !== EventType.RecordError && isWellFormed(type, payload)) {
    sink.event(bytes, payload)
    return
  }
  const seqno = readU64(bytes, descriptor.seqno)
  sink.gap(seqno, seqno)
}
