// Compresses responses as Accept-Encoding asks, whole or streamed.
import { pipeline, Readable, Transform } from 'node:stream'
import { setImmediate as turn } from 'node:timers/promises'
import { promisify } from 'node:util'
import {
  brotliCompress,
  constants,
  createBrotliCompress,
  createDeflate,
  createGzip,
  deflate,
  gzip,
} from 'node:zlib'
import { compressZstd } from '../zstd.ts'
import { Reply } from './reply.ts'

/** The fastest levels, because this runs in the main process. */
const level = { level: 1 }
const quality = { params: { [constants.BROTLI_PARAM_QUALITY]: 1 } }

interface Coding {
  readonly name: string
  whole(bytes: Uint8Array): Promise<Buffer>
  stream(): Transform
}

/** zstd blocks the thread while it compresses, so it takes less at once and is the last choice. */
const ZSTD_FRAME_BYTES = 131_072

/** In the order in which they are chosen. */
const codings: readonly Coding[] = [
  {
    name: 'br',
    whole: (bytes) => promisify(brotliCompress)(bytes, quality),
    stream: () => createBrotliCompress(quality),
  },
  {
    name: 'gzip',
    whole: (bytes) => promisify(gzip)(bytes, level),
    stream: () => createGzip(level),
  },
  {
    name: 'deflate',
    whole: (bytes) => promisify(deflate)(bytes, level),
    stream: () => createDeflate(level),
  },
  {
    name: 'zstd',
    whole: zstd,
    stream: () =>
      new Transform({
        transform: (chunk: Buffer, _, done) =>
          void zstd(chunk).then((frames) => done(null, frames), done),
      }),
  },
]

/** Frames that decoders read as one content. */
async function zstd(bytes: Uint8Array): Promise<Buffer> {
  const frames: Buffer[] = []
  for (let at = 0; at === 0 || at < bytes.length; at += ZSTD_FRAME_BYTES) {
    frames.push(compressZstd(bytes.subarray(at, at + ZSTD_FRAME_BYTES), level.level))
    await turn()
  }
  return Buffer.concat(frames)
}

/** Null when the client accepts none of them. */
export function codingOf(acceptEncoding: string): Coding | null {
  const accepted = acceptEncoding
    .split(',')
    .map((one) => /^\s*([\w*-]+)\s*(?:;\s*q=(.*))?$/.exec(one))
    .filter((form) => form !== null && !/^0(\.0*)?\s*$/.test(form[2] ?? '1'))
    .map((form) => form![1]!.toLowerCase())
  const found = codings.find(({ name }) => accepted.includes(name))
  return found ?? (accepted.includes('*') ? codings[1]! : null)
}

export async function encoded(reply: Reply, coding: Coding): Promise<Reply> {
  const { status, body, isLast } = reply
  const head = reply.head.and('content-encoding', coding.name)
  if (typeof body === 'string' || body instanceof Uint8Array)
    return new Reply(status, head, await coding.whole(Buffer.from(body)), isLast)
  if ('pieces' in body) return reply
  return new Reply(status, head, streamed(body, coding.stream()), isLast)
}

/** With backpressure; ends the source when the reader leaves. */
function streamed(source: AsyncIterable<Uint8Array>, packer: Transform): AsyncIterable<Uint8Array> {
  const body = source[Symbol.asyncIterator]()
  // An error in the source destroys the packer, and with it the connection.
  pipeline(Readable.from(source, { objectMode: false }), packer, () => {})
  return withReturn(packer[Symbol.asyncIterator](), () => {
    packer.destroy()
    void body.return?.()
  })
}

/** Wraps `chunks` to call `end` when they are ended early, even before the first was read. */
export function withReturn(
  chunks: AsyncIterator<Uint8Array>,
  end: () => void,
): AsyncIterableIterator<Uint8Array> {
  return {
    [Symbol.asyncIterator]() {
      return this
    },
    next: () => chunks.next(),
    async return() {
      end()
      await chunks.return?.()
      return { done: true, value: undefined }
    },
  }
}
