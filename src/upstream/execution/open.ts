// Opens the execution source that the configuration selects. Thread: source worker.
// `ExecutionSourceSection` contains plain values, so that it can be passed to a worker.
import {
  entriesIn,
  isRecording,
  RecordingReader,
  recordingKind,
} from '../../base/recording-file.ts'
import type { TapWriter } from '../../base/rings/tap.ts'
import { descriptor as layout } from '../../chain/evm/event-ring.ts'
import { readU16, readU64 } from '../../chain/evm/words.ts'
import type { ExecutionSink, ExecutionSource } from '../ports.ts'
import type { ExecutionSourceSection } from './config.ts'
import { Generator } from './generator/generator.ts'
import { type Pacer, TimerPacer } from './playback.ts'
import { RingFile } from './ring-file.ts'
import { Snapshot, type SnapshotProgress } from './snapshot.ts'

interface ExecutionSourceDeps {
  readonly pacer?: Pacer
  /** Called while a snapshot plays: each block, at full speed every few thousand events. */
  readonly onProgress?: (progress: SnapshotProgress) => void
}

export function openExecutionSource(
  section: ExecutionSourceSection,
  { pacer = new TimerPacer(), onProgress }: ExecutionSourceDeps = {},
): ExecutionSource {
  const { path, speed, loop, generator } = section
  switch (section.source) {
    case 'embedded':
      return new Generator(generator, pacer)
    case 'snapshot':
      if (isRecording(path)) return new RecordedEvents(path)
      return new Snapshot({ path, speed, loop, blockMs: generator.blockMs }, pacer, onProgress)
    case 'ring':
      return new RingFile({ path }, pacer)
  }
}

// Execution events of a flight recording: how a source's events get into it, and how they are
// played from it. Thread: source worker.
//
//   event    descriptor[64], payload
//   counted  seqno f64, type u16: of types without a reader only the number is kept
//   gap      from f64, to f64

const entryTag = { event: 1, counted: 2, gap: 3 } as const
const countedBytes = 10
const gapBytes = 16
const none = new Uint8Array(0)

/** Passes everything on, and shows it to a recorder first. */
export class TappedSink implements ExecutionSink {
  readonly #sink: ExecutionSink
  readonly #tap: TapWriter
  readonly #counted = Buffer.alloc(countedBytes)

  constructor(sink: ExecutionSink, tap: TapWriter) {
    this.#sink = sink
    this.#tap = tap
  }

  event(descriptor: Uint8Array, payload: Uint8Array, at = 0, size = payload.length): void {
    if (this.#tap.isOn) this.#record(descriptor, payload, at, size)
    this.#sink.event(descriptor, payload, at, size)
  }

  ignores(type: number): boolean {
    return this.#sink.ignores?.(type) === true
  }

  gap(from: number, to: number): void {
    if (this.#tap.isOn) {
      const entry = Buffer.allocUnsafe(gapBytes)
      entry.writeDoubleLE(from, 0)
      entry.writeDoubleLE(to, 8)
      this.#tap.write(entryTag.gap, entry)
    }
    this.#sink.gap(from, to)
  }

  flush(): void {
    this.#tap.publish()
    this.#sink.flush()
  }

  #record(descriptor: Uint8Array, payload: Uint8Array, at: number, size: number): void {
    const type = readU16(descriptor, layout.type)
    if (this.ignores(type)) {
      const entry = this.#counted
      entry.writeDoubleLE(readU64(descriptor, layout.seqno), 0)
      entry.writeUInt16LE(type, 8)
      this.#tap.write(entryTag.counted, entry)
      return
    }
    const isWhole = at === 0 && size === payload.length
    this.#tap.write(entryTag.event, descriptor, isWhole ? payload : payload.subarray(at, at + size))
  }
}

/** Plays the events of a recording, as fast as they are taken. */
class RecordedEvents implements ExecutionSource {
  readonly #path: string
  #isStopped = false

  constructor(path: string) {
    this.#path = path
  }

  async run(sink: ExecutionSink): Promise<void> {
    const reader = new RecordingReader(this.#path)
    try {
      for (const { kind, body } of reader.records()) {
        if (this.#isStopped) return
        if (kind !== recordingKind.events) continue
        for (const { tag, payload } of entriesIn(body)) play(sink, tag, payload)
        sink.flush()
        // The thread looks at its messages in between.
        await new Promise((resolve) => setImmediate(resolve))
      }
    } finally {
      reader.close()
    }
  }

  stop(): void {
    this.#isStopped = true
  }
}

function play(sink: ExecutionSink, tag: number, bytes: Uint8Array): void {
  // Copied: the descriptor's numbers of eight bytes are read in words.
  const entry = Buffer.from(bytes)
  if (tag === entryTag.gap) sink.gap(entry.readDoubleLE(0), entry.readDoubleLE(8))
  else if (tag === entryTag.event)
    sink.event(entry.subarray(0, layout.bytes), entry.subarray(layout.bytes))
  else {
    const descriptor = Buffer.alloc(layout.bytes)
    descriptor.writeBigUInt64LE(BigInt(entry.readDoubleLE(0)), layout.seqno)
    descriptor.writeUInt16LE(entry.readUInt16LE(8), layout.type)
    sink.event(descriptor, none, 0, 0)
  }
}
