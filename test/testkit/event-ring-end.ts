// The writing end of an event ring file, a process of its own: tests and benches send it what to
// write (lib/process.ts). Thread: main of that process.
import {
  blockVerified,
  EventType,
  recordError,
  txnCallFrame,
} from '../../src/chain/evm/event-payload.ts'
import { descriptor } from '../../src/chain/evm/event-ring.ts'
import { writeU16, writeU32, writeU64 } from '../../src/chain/evm/words.ts'
import { type EventRingOptions, EventRingWriter } from './event-ring-writer.ts'
import { serveBench } from './process.ts'

export interface CreateRing extends EventRingOptions {
  readonly path: string
}

/** `mixed`: small events, each with its own number in it. `large`: calls of `bytes` of input. */
export interface WriteEvents {
  readonly kind: 'mixed' | 'large' | 'error'
  readonly count: number
  readonly bytes?: number
}

let writer: EventRingWriter | null = null
const bytes = new Uint8Array(descriptor.bytes)
const scratch = new Uint8Array(txnCallFrame.size + 2 * 1024 * 1024)

serveBench({
  create(options: CreateRing): void {
    writer?.close()
    writer = new EventRingWriter(options.path, options)
  },
  write({ kind, count, bytes: inputBytes = 0 }: WriteEvents): number {
    if (writer === null) throw new Error('no ring yet')
    for (let index = 0; index < count; index++) writeOne(writer, kind, inputBytes)
    writer.flush()
    return writer.seqno
  },
  truncate(length: number): void {
    writer?.truncate(length)
  },
})

function writeOne(to: EventRingWriter, kind: WriteEvents['kind'], inputBytes: number): void {
  const seqno = to.seqno + 1
  if (kind === 'error') {
    const payload = scratch.subarray(0, recordError.size).fill(0)
    writeU16(payload, recordError.kind, 3)
    emit(to, EventType.RecordError, payload)
  } else if (kind === 'mixed' && seqno % 3 === 0) {
    const payload = scratch.subarray(0, blockVerified.size)
    writeU64(payload, blockVerified.blockNumber, seqno)
    emit(to, EventType.BlockVerified, payload)
  } else {
    const length = kind === 'large' ? inputBytes : seqno % 500
    const payload = scratch.subarray(0, txnCallFrame.size + length)
    payload.fill(0, 0, txnCallFrame.size)
    writeU64(payload, txnCallFrame.gas, seqno)
    writeU64(payload, txnCallFrame.inputLength, length)
    payload.fill(seqno, txnCallFrame.size)
    emit(to, EventType.TxnCallFrame, payload)
  }
}

function emit(to: EventRingWriter, type: number, payload: Uint8Array): void {
  writeU16(bytes, descriptor.type, type)
  writeU32(bytes, descriptor.payloadSize, payload.length)
  to.event(bytes, payload)
}
