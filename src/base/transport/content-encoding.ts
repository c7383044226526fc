// Compresses responses as Accept-Encoding asks, whole or streamed, and decodes request bodies.
import { pipeline, Readable, Transform } from 'node:stream'
import { setImmediate as turn } from 'node:timers/promises'
import { promisify } from 'node:util'
import {
  brotliCompress,
  brotliDecompress,
  constants,
  createBrotliCompress,
  createDeflate,
  createGzip,
  deflate,
  gunzip,
  gzip,
  inflate,
} from 'node:zlib'
import { compressZstd, decompressZstd } from '../zstd.ts'
import { Reply } from './reply.ts'

/** The fastest levels, because this runs in the main process. */
const level = { level: 1 }
const quality = { params: { [constants.BROTLI_PARAM_QUALITY]: 1 } }

type CodingName = 'br' | 'gzip' | 'deflate' | 'zstd'

export interface Coding<N extends CodingName = CodingName> {
  readonly name: N
  /** `effort` is a level of zlib, for answers that are shared; the fastest without it. */
  whole(bytes: Uint8Array, effort?: number): Promise<Buffer>
  stream(): Transform
  /** Rejects what is malformed or longer than `maxOutputLength`. */
  decode(bytes: Buffer, options: { readonly maxOutputLength: number }): Promise<Buffer>
}

/** zstd blocks the thread while it compresses, so it takes less at once and is the last choice. */
const ZSTD_FRAME_BYTES = 131_072

/** In the order in which they are chosen. */
const codings: readonly Coding[] = [
  {
    name: 'br',
    whole: (bytes) => promisify(brotliCompress)(bytes, quality),
    stream: () => createBrotliCompress(quality),
    decode: promisify<Buffer, { maxOutputLength: number }, Buffer>(brotliDecompress),
  },
  {
    name: 'gzip',
    whole: (bytes, effort = level.level) => promisify(gzip)(bytes, { level: effort }),
    stream: () => createGzip(level),
    decode: promisify<Buffer, { maxOutputLength: number }, Buffer>(gunzip),
  },
  {
    name: 'deflate',
    whole: (bytes) => promisify(deflate)(bytes, level),
    stream: () => createDeflate(level),
    decode: promisify<Buffer, { maxOutputLength: number }, Buffer>(inflate),
  },
  {
    name: 'zstd',
    whole: zstd,
    stream: () =>
      new Transform({
        transform: (chunk: Buffer, _, done) =>
          void zstd(chunk).then((frames) => done(null, frames), done),
      }),
    decode: async (bytes, { maxOutputLength }) => {
      const content = decompressZstd(bytes, maxOutputLength)
      if (typeof content === 'string') throw new Error(content)
      return content
    },
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

/** The coding of a Content-Encoding; null when there is no such. */
export function codingNamed(name: string): Coding | null {
  return codings.find((coding) => coding.name === name) ?? null
}

/** The first that the client accepts, among all or among those offered, of which gzip is one; null
 *  when it accepts none of them. */
export function codingOf<N extends CodingName = CodingName>(
  acceptEncoding: string,
  offered: readonly (N | 'gzip')[] | null = null,
): Coding<N | 'gzip'> | null {
  const accepted = acceptEncoding
    .split(',')
    .map((one) => /^\s*([\w*-]+)\s*(?:;\s*q=(.*))?$/.exec(one))
    .filter((form) => form !== null && !/^0(\.0*)?\s*$/.test(form[2] ?? '1'))
    .map((form) => form![1]!.toLowerCase())
  const isOffered = (coding: Coding): coding is Coding<N | 'gzip'> =>
    offered?.some((name) => name === coding.name) ?? true
  const own = codings.filter(isOffered)
  const found = own.find(({ name }) => accepted.includes(name))
  return found ?? (accepted.includes('*') ? own.find(({ name }) => name === 'gzip')! : null)
}

/** `effort` as in `Coding`. */
export async function encoded(reply: Reply, coding: Coding, effort?: number): Promise<Reply> {
  const { status, body, isLast } = reply
  const head = reply.head.and('content-encoding', coding.name)
  const bytes = typeof body === 'string' ? Buffer.from(body) : body
  if (bytes instanceof Uint8Array)
    return new Reply(status, head, await coding.whole(bytes, effort), isLast)
  if ('pieces' in bytes) return reply
  return new Reply(status, head, streamed(bytes, coding.stream()), isLast)
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
