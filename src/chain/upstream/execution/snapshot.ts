// Plays a recorded event ring: once or in a loop, at recorded, fixed or full speed.
// Thread: source worker. The first pass is the recording byte for byte, save that fixed speed moves
// each block's times to its slot. Later passes continue it: numbers and times rise, hashes differ.
import { descriptor } from '../../../evm/event-ring.ts'
import { EventType } from '../../../evm/event-type.ts'
import { differenceU64, readU16 } from '../../../evm/words.ts'
import { deliver } from '../../execution/deliver.ts'
import type { Pacer } from '../../execution/pacer.ts'
import type { ExecutionSink, ExecutionSource } from '../../ports.ts'
import { type Passes, passesOf, rewritePayload, Shift } from './passes.ts'
import { loadRecording, type Recording } from './recording.ts'

export interface SnapshotOptions {
  readonly path: string
  readonly speed: 'recorded' | 'fixed' | 'full'
  readonly loop: boolean
  /** Block time at fixed speed, and between two passes at any. */
  readonly blockMs: number
}

export interface SnapshotProgress {
  /** Counted from 0. */
  readonly pass: number
  /** Events of this pass that were handed over. */
  readonly events: number
  readonly eventsTotal: number
}

/** At recorded speed events are handed over in slices of this length. */
const sliceMs = 5
/** At full speed other work of the thread gets its turn after this many events. */
const turnEvents = 4096
const wordsPerEvent = descriptor.bytes / 4

export class Snapshot implements ExecutionSource {
  readonly #options: SnapshotOptions
  readonly #pacer: Pacer
  readonly #onProgress: (progress: SnapshotProgress) => void
  #blocks = 0
  #beganMs = 0

  constructor(
    options: SnapshotOptions,
    pacer: Pacer,
    onProgress: (progress: SnapshotProgress) => void = () => {},
  ) {
    this.#options = options
    this.#pacer = pacer
    this.#onProgress = onProgress
  }

  async run(sink: ExecutionSink): Promise<void> {
    const recording = await loadRecording(this.#options.path)
    const passes = passesOf(recording, this.#options.blockMs)
    this.#beganMs = this.#pacer.clock.monotonicMs()
    let pass = 0
    do {
      await this.#play(sink, recording, passes, pass)
      pass += 1
    } while (this.#options.loop && !this.#pacer.isStopped && recording.count > 0)
  }

  stop(): void {
    this.#pacer.stop()
  }

  async #play(
    sink: ExecutionSink,
    recording: Recording,
    passes: Passes,
    pass: number,
  ): Promise<void> {
    const eventsTotal = recording.count
    const { firstNs } = passes
    const shift = new Shift(passes, pass)
    const spanMs = Number(passes.spanNs * BigInt(pass)) / 1e6
    const recorded = wordsOf(recording.descriptors)
    const words = new Uint32Array(wordsPerEvent)
    const bytes = new Uint8Array(words.buffer)
    for (let index = 0; index < eventsTotal; index++) {
      const at = index * wordsPerEvent
      for (let word = 0; word < wordsPerEvent; word++) words[word] = recorded[at + word]!
      const type = readU16(bytes, descriptor.type)
      const dueMs = this.#dueMs(bytes, { type, index }, firstNs, spanMs)
      if (dueMs >= 0) {
        sink.flush()
        this.#onProgress({ pass, events: index, eventsTotal })
        await this.#pacer.until(dueMs)
        if (this.#pacer.isStopped) return
        if (this.#options.speed === 'fixed') shift.setTime(this.#slotShift(bytes, firstNs))
      }
      shift.apply(bytes)
      const payload = recording.payloadOf(index)
      deliver(sink, bytes, pass > 0 ? rewritePayload(payload, type, passes, pass) : payload)
    }
    sink.flush()
    this.#onProgress({ pass, events: eventsTotal, eventsTotal })
  }

  /** When the events so far are handed over and this one is waited for; -1: it follows at once. */
  #dueMs(
    bytes: Uint8Array,
    { type, index }: { type: number; index: number },
    firstNs: Uint8Array,
    spanMs: number,
  ): number {
    const { speed, blockMs } = this.#options
    if (speed === 'full') return index % turnEvents === 0 ? 0 : -1
    if (speed === 'fixed')
      return type === EventType.BlockStart ? this.#beganMs + this.#blocks * blockMs : -1
    const recordedMs = differenceU64(bytes, descriptor.timeNs, firstNs, 0) / 1e6
    const dueMs = this.#beganMs + spanMs + recordedMs
    return dueMs > this.#pacer.clock.monotonicMs() + sliceMs ? dueMs : -1
  }

  /** Moves a block's times to its slot: within a block nothing changes. */
  #slotShift(bytes: Uint8Array, firstNs: Uint8Array): bigint {
    const slotNs = BigInt(this.#blocks * this.#options.blockMs) * 1_000_000n
    this.#blocks += 1
    return slotNs - BigInt(differenceU64(bytes, descriptor.timeNs, firstNs, 0))
  }
}

function wordsOf(descriptors: Uint8Array): Uint32Array {
  return new Uint32Array(descriptors.buffer, descriptors.byteOffset, descriptors.length / 4)
}
