// Events recorded on a tape of bytes, to be played by a source thread (tape-source.mjs).
//
//   event   u32 bytes after this word    descriptor[64]   payload
//   gap     u32 0   from f64   to f64
//   pause   u32 0xffffffff: the source waits for one more call of the pipeline's `release`
import type { EventSink } from './recording.ts'

export class Tape implements EventSink {
  readonly #parts: Uint8Array[] = []
  #bytes = 0

  event(descriptor: Uint8Array, payload: Uint8Array): void {
    const part = new Uint8Array(4 + descriptor.length + payload.length)
    new DataView(part.buffer).setUint32(0, part.length - 4, true)
    part.set(descriptor, 4)
    part.set(payload, 4 + descriptor.length)
    this.#push(part)
  }

  gap(from: number, to: number): void {
    const part = new Uint8Array(20)
    const view = new DataView(part.buffer)
    view.setFloat64(4, from, true)
    view.setFloat64(12, to, true)
    this.#push(part)
  }

  pause(): void {
    this.#push(new Uint8Array(4).fill(0xff))
  }

  /** Shared, so that a worker gets it without a copy. */
  bytes(): SharedArrayBuffer {
    const all = new SharedArrayBuffer(this.#bytes)
    const view = new Uint8Array(all)
    let at = 0
    for (const part of this.#parts) {
      view.set(part, at)
      at += part.length
    }
    return all
  }

  #push(part: Uint8Array): void {
    this.#parts.push(part)
    this.#bytes += part.length
  }
}
