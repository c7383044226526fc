// Plays a recorded event ring: once or in a loop, at recorded, fixed or full speed.
// Thread: source worker. The first pass is the recording byte for byte, except that fixed speed
// moves each block's times to its interval. Later passes continue it: numbers and times increase,
// hashes differ.
import { EventType } from '../../chain/evm/event-payload.ts'
import { descriptor } from '../../chain/evm/event-ring.ts'
import { differenceU64 } from '../../chain/evm/words.ts'
import type { ExecutionSink, ExecutionSource } from '../ports.ts'
import { type Pacer, type Passes, Playback, passesOf } from './playback.ts'
import { loadRecording, type Recording } from './recording.ts'

export interface SnapshotOptions {
  readonly path: string
  readonly speed: 'recorded' | 'fixed' | 'full'
  readonly loop: boolean
  /** Block time at fixed speed, and the time between two passes at any speed. */
  readonly blockMs: number
}

export interface SnapshotProgress {
  /** Counted from 0. */
  readonly pass: number
  /** Events of this pass that were delivered. */
  readonly events: number
  readonly eventsTotal: number
}

/** At recorded speed events are delivered in slices of this length. */
const sliceMs = 5
/** At full speed the source yields to other work of the thread after this many events. */
const turnEvents = 4096

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
    const playback = new Playback(sink, recording, passes, pass)
    const spanMs = Number(passes.spanNs * BigInt(pass)) / 1e6
    let handed = 0
    for (let index = 0; index < eventsTotal; index++) {
      const dueMs = this.#dueMs(playback, index, firstNs, spanMs)
      if (dueMs < 0) continue
      playback.play(handed, index)
      handed = index
      sink.flush()
      this.#onProgress({ pass, events: index, eventsTotal })
      await this.#pacer.until(dueMs)
      if (this.#pacer.isStopped) return
      if (this.#options.speed === 'fixed')
        playback.shift.setTime(this.#slotShift(playback.look(index), firstNs))
    }
    playback.play(handed, eventsTotal)
    sink.flush()
    this.#onProgress({ pass, events: eventsTotal, eventsTotal })
  }

  /** When this event is due, after delivery of the events so far; -1: it follows at once. */
  #dueMs(playback: Playback, index: number, firstNs: Uint8Array, spanMs: number): number {
    const { speed, blockMs } = this.#options
    if (speed === 'full') return index % turnEvents === 0 ? 0 : -1
    if (speed === 'fixed')
      return playback.typeOf(index) === EventType.BlockStart
        ? this.#beganMs + this.#blocks * blockMs
        : -1
    const bytes = playback.look(index)
    const recordedMs = differenceU64(bytes, descriptor.timeNs, firstNs, 0) / 1e6
    const dueMs = this.#beganMs + spanMs + recordedMs
    return dueMs > this.#pacer.clock.monotonicMs() + sliceMs ? dueMs : -1
  }

  /** Moves a block's times to its interval; times within a block keep their distance. */
  #slotShift(bytes: Uint8Array, firstNs: Uint8Array): bigint {
    const slotNs = BigInt(this.#blocks * this.#options.blockMs) * 1_000_000n
    this.#blocks += 1
    return slotNs - BigInt(differenceU64(bytes, descriptor.timeNs, firstNs, 0))
  }
}
