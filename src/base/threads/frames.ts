// Length-prefixed msgpack frames over a pipe between the server and a child process.
// Thread: main of either process. The only file that uses msgpackr for frames. The server's side
// uses `FrameLink`, the child's side `serveFrames`.
//
//   +-----------------+------------------------------+
//   | length u32 LE   | msgpack: one value           |
//   +-----------------+------------------------------+
//   server -> child   { id, call, input } | { stop: true }
//   child -> server   { id, output } | { id, error } | { event, data }
import { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { Packr } from 'msgpackr'
import { assert, messageOf } from '../errors.ts'
import { exitNow, exitStopped } from '../exit.ts'

const headerBytes = 4
/** A longer frame means that the peer is broken. */
export const frameBytesMax = 64 * 1024 * 1024
/** Timeout after which a child whose server is gone exits, whatever its `onStop` does. */
const stopMsMax = 10_000
/** The pipe's file descriptor in the child. */
export const childPipe = 3

/** Splits a stream of chunks into frames. Chunks are kept in a list and copied at most once. */
export class FrameSplitter {
  readonly #onFrame: (frame: Uint8Array) => void
  #chunks: Buffer[] = []
  /** Bytes of the first chunk that are already consumed. */
  #used = 0
  #available = 0

  constructor(onFrame: (frame: Uint8Array) => void) {
    this.#onFrame = onFrame
  }

  /** Returns false when the peer announces a frame over the limit: the pipe is then unusable. */
  push(chunk: Buffer): boolean {
    this.#chunks.push(chunk)
    this.#available += chunk.length
    while (this.#available >= headerBytes) {
      const length = this.#peekLength()
      if (length > frameBytesMax) return false
      if (this.#available < headerBytes + length) break
      this.#take(headerBytes)
      this.#onFrame(this.#take(length))
    }
    return true
  }

  #peekLength(): number {
    const first = this.#chunks[0]!
    if (first.length - this.#used >= headerBytes) return first.readUInt32LE(this.#used)
    // The header itself is split: read it byte by byte from as many chunks as it spans.
    let length = 0
    let chunk = 0
    let at = this.#used
    for (let byte = 0; byte < headerBytes; byte += 1) {
      while (at >= this.#chunks[chunk]!.length) {
        chunk += 1
        at = 0
      }
      length += this.#chunks[chunk]![at]! * 2 ** (8 * byte)
      at += 1
    }
    return length
  }

  #take(length: number): Uint8Array {
    this.#available -= length
    const first = this.#chunks[0]
    if (first === undefined || first.length - this.#used >= length) {
      const frame = first?.subarray(this.#used, this.#used + length) ?? new Uint8Array(0)
      this.#used += length
      this.#dropUsed()
      return frame
    }
    const joined = Buffer.allocUnsafe(length)
    let filled = 0
    while (filled < length) {
      const chunk = this.#chunks[0]!
      const part = Math.min(chunk.length - this.#used, length - filled)
      chunk.copy(joined, filled, this.#used, this.#used + part)
      filled += part
      this.#used += part
      this.#dropUsed()
    }
    return joined
  }

  #dropUsed(): void {
    while (this.#chunks.length > 0 && this.#used >= this.#chunks[0]!.length) {
      this.#used -= this.#chunks[0]!.length
      this.#chunks.shift()
    }
  }
}

/** Sends and receives values over a pipe. What is sent in one tick leaves in one write. */
export class FrameLink {
  readonly #pipe: Duplex
  readonly #packr = new Packr({ useRecords: true })
  #isCorked = false

  constructor(pipe: Duplex, onValue: (value: unknown) => void) {
    this.#pipe = pipe
    const splitter = new FrameSplitter((frame) => {
      let value: unknown
      try {
        value = this.#packr.unpack(frame)
      } catch (error) {
        // Not msgpack: the peer is broken. Only the pipe is closed; the process continues.
        pipe.destroy(error instanceof Error ? error : new Error(String(error)))
        return
      }
      onValue(value)
    })
    pipe.on('data', (chunk: Buffer) => {
      if (!splitter.push(chunk)) pipe.destroy(new Error('a frame is too long'))
    })
  }

  /** Bytes sent that the peer has not read yet. */
  get unsentBytes(): number {
    return this.#pipe.writableLength
  }

  send(value: unknown): void {
    if (this.#pipe.destroyed) return
    const body = this.#packr.pack(value)
    assert(body.length <= frameBytesMax, 'a frame is within its bound')
    if (!this.#isCorked) {
      this.#isCorked = true
      this.#pipe.cork()
      process.nextTick(() => {
        this.#isCorked = false
        this.#pipe.uncork()
      })
    }
    const header = Buffer.allocUnsafe(headerBytes)
    header.writeUInt32LE(body.length)
    this.#pipe.write(header)
    this.#pipe.write(body)
  }
}

const alone = new Packr({ useRecords: false })

/** A value as bytes, which are read without those before them. */
export function pack(value: unknown): Buffer {
  return alone.pack(value)
}

/** Bytes in it are views. */
export function unpack(bytes: Uint8Array): unknown {
  return alone.unpack(bytes)
}

export type FrameHandlers = Readonly<Record<string, (input: never) => unknown>>

export interface FrameService {
  /** Sends the server an event that is not a response to a call. */
  push(event: string, data: unknown): void
  readonly unsentBytes: number
}

/**
 * The child's side: answers calls until the server sends stop or goes away, then calls `onStop`
 * and exits. A handler's error is returned to the caller; it does not end the child.
 */
export function serveFrames(
  handlers: FrameHandlers,
  onStop: () => void | Promise<void> = () => {},
): FrameService {
  const pipe = new Socket({ fd: childPipe })
  let isStopping = false
  const stop = async () => {
    if (isStopping) return
    isStopping = true
    setTimeout(() => exitNow(1), stopMsMax).unref()
    await onStop()
    if (pipe.destroyed) return exitStopped(0)
    // Responses that are still buffered reach the server before the pipe closes.
    pipe.end(() => exitStopped(0))
  }
  const link = new FrameLink(pipe, (value) => {
    const frame = value as { stop?: true; id: number; call: string; input: unknown }
    if (frame.stop === true) void stop()
    else void answer(link, handlers, frame)
  })
  // Ctrl-C in a terminal reaches the whole process group: only the server decides when the child
  // ends, over the pipe.
  process.on('SIGINT', () => {})
  process.on('SIGTERM', () => {})
  // The server is gone, whatever the reason: a child does not outlive it.
  pipe.once('close', stop)
  pipe.once('error', stop)
  link.send({ event: 'ready', data: null })
  return {
    push: (event, data) => link.send({ event, data }),
    get unsentBytes() {
      return link.unsentBytes
    },
  }
}

async function answer(
  link: FrameLink,
  handlers: FrameHandlers,
  frame: { id: number; call: string; input: unknown },
): Promise<void> {
  try {
    const handler = handlers[frame.call]
    assert(handler !== undefined, `the child knows the call ${frame.call}`)
    // Reason for the cast: both ends are ours; the caller's types define the input of a call.
    link.send({ id: frame.id, output: await handler(frame.input as never) })
  } catch (error) {
    link.send({ id: frame.id, error: messageOf(error) })
  }
}
