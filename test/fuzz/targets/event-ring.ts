// Event rings of the execution engine: recorded files, raw and compressed, and their events.
import { ok } from 'node:assert'
import type { FileHandle } from 'node:fs/promises'
import { Fault } from '../../../src/base/errors.ts'
import { isWellFormed } from '../../../src/chain/evm/event-payload.ts'
import { descriptor, ringHeader } from '../../../src/chain/evm/event-ring.ts'
import { readU16, writeU16, writeU32, writeU64 } from '../../../src/chain/evm/words.ts'
import { Playback, passesOf } from '../../../src/upstream/execution/playback.ts'
import { loadRecording } from '../../../src/upstream/execution/recording.ts'
import { eventRingHeader } from '../../testkit/event-ring-writer.ts'
import type { Target } from '../target.ts'

const descriptorsMax = 16
const capacity = 2 ** 16
const payloadBase = ringHeader.pageBytes + capacity * descriptor.bytes
const headBytes = ringHeader.usedBytes
const eventsBytes = descriptorsMax * descriptor.bytes

/** Header, sixteen descriptors and the payloads: the file has zeros between them. */
export const eventRing: Target = {
  bytesMax: 8_192,
  words: [Uint8Array.of(0, 0, 0, 0, 0, 0, 0x20, 0), Uint8Array.of(0xff, 0xff, 0xff, 0xff)],
  seeds: () => [0, 1, 5, 9].map(seedOf),
  async run(input) {
    const handle = fileOf(input)
    let recording: Awaited<ReturnType<typeof loadRecording>>
    try {
      recording = await loadRecording('ring', async () => handle)
    } catch (error) {
      if (error instanceof Fault) return
      throw error
    }
    ok(recording.count <= capacity, 'at most as many events as the ring has room for')
    let events = 0
    const sink = {
      event(bytes: Uint8Array, payload: Uint8Array, at = 0, length = payload.length) {
        events++
        ok(at >= 0 && at + length <= payload.length, 'a payload is within its bytes')
        ok(isWellFormed(readU16(bytes, descriptor.type), payload, at, length), 'is well formed')
      },
      gap: () => events++,
      flush: () => {},
    }
    const passes = passesOf(recording, 400)
    for (const pass of [0, 1]) new Playback(sink, recording, passes, pass).play(0, recording.count)
    ok(events === 2 * recording.count, 'each event, or a gap')
  },
}

function seedOf(count: number): Buffer {
  const header = eventRingHeader()
  const size = 16
  writeU64(header, ringHeader.lastSeqno, count)
  writeU64(header, ringHeader.nextPayloadByte, count * size)
  const events = Buffer.alloc(eventsBytes)
  for (let index = 0; index < count; index++) {
    const at = index * descriptor.bytes
    writeU64(events, at + descriptor.seqno, index + 1)
    writeU16(events, at + descriptor.type, 1 + index)
    writeU32(events, at + descriptor.payloadSize, size)
    writeU64(events, at + descriptor.payloadOffset, index * size)
  }
  return Buffer.concat([header, events, Buffer.alloc(count * size + 64, 1)])
}

/** A file in which the parts of the input lie where a ring has them. */
function fileOf(input: Buffer): FileHandle {
  const parts: readonly (readonly [number, Buffer])[] = [
    [0, input.subarray(0, headBytes)],
    [ringHeader.pageBytes, input.subarray(headBytes, headBytes + eventsBytes)],
    [payloadBase, input.subarray(headBytes + eventsBytes)],
  ]
  // A short one ends in the part that is short, as a file that was cut off.
  const [last, rest] = parts.findLast(([, bytes]) => bytes.length > 0) ?? [0, input]
  const size = last + rest.length
  const read = async (buffer: Uint8Array, offset: number, length: number, position: number) => {
    const bytesRead = Math.max(0, Math.min(length, size - position))
    buffer.fill(0, offset, offset + bytesRead)
    for (const [start, bytes] of parts) {
      const from = Math.max(start, position)
      const to = Math.min(start + bytes.length, position + bytesRead)
      if (from < to) buffer.set(bytes.subarray(from - start, to - start), offset + from - position)
    }
    return { bytesRead, buffer }
  }
  // Reason for the cast: a recording is read and closed.
  return { read, close: async () => {} } as unknown as FileHandle
}
