// Compresses the messages of answers and inflates those of requests.
//
//   request with flag 1 -> inflated within the method's size limit -> the library
//   run of frames       -> each message compressed, flag 1 -> every stream that asks for it
//
// The library inflates gzip and deflate requests and compresses no answer, hence the two methods
// of its calls that are replaced here. A message may always be sent uncompressed, with flag 0.
import { gzipSync } from 'node:zlib'
import { compressZstd, decompressZstd } from '../zstd.ts'
import type { GrpcEncoding } from './grpc-encoding.ts'
import { type GrpcStatus, grpcCode } from './grpc-status.ts'
import { framePrefixBytes, type LibraryCall } from './grpc-stream.ts'

/** A shorter message gains nothing. */
const compressBytesMin = 256
/** A longer one would hold the main thread for more than 20 ms. */
const compressBytesMax = 4 * 1024 * 1024
/** The higher levels take twice the time and save a few percent. */
const level = 1

/** Compresses the messages of a run of frames, which may be split into several buffers. */
export function compressFrames(
  runs: readonly { readonly bytes: Buffer }[],
  encoding: GrpcEncoding,
): Buffer {
  const frames = runs.length === 1 ? runs[0]!.bytes : Buffer.concat(runs.map(({ bytes }) => bytes))
  const parts: Uint8Array[] = []
  let copied = 0
  for (let at = 0; at < frames.length; ) {
    const end = at + framePrefixBytes + frames.readUInt32BE(at + 1)
    const message = frames.subarray(at + framePrefixBytes, end)
    if (message.length >= compressBytesMin && message.length <= compressBytesMax) {
      const compressed = encoding === 'gzip' ? gzip(message) : compressZstd(message, level)
      if (compressed.length < message.length) {
        const prefix = Buffer.allocUnsafe(framePrefixBytes)
        prefix[0] = 1
        prefix.writeUInt32BE(compressed.length, 1)
        parts.push(frames.subarray(copied, at), prefix, compressed)
        copied = end
      }
    }
    at = end
  }
  return Buffer.concat([...parts, frames.subarray(copied)])
}

/** Lets a call take zstd requests, limits what requests inflate to, and compresses its answers. */
export function handleCompression(
  call: LibraryCall,
  options: {
    readonly messageBytesMax: number
    readonly encoding: GrpcEncoding | null
    /** The call ends with a status because of a request. */
    refused(): void
  },
): void {
  const inflate = call.decompressMessage
  call.decompressMessage = async (frame, encoding) => {
    try {
      const message = await (encoding === 'zstd'
        ? inflateZstd(frame.subarray(framePrefixBytes), options.messageBytesMax)
        : inflate.call(call, frame, encoding))
      if (message.length > options.messageBytesMax) throw inflatesTooLarge(options.messageBytesMax)
      return message
    } catch (status) {
      options.refused()
      throw status
    }
  }
  const { encoding } = options
  if (encoding === null) return
  const serialize = call.serializeMessage
  call.serializeMessage = (value) =>
    compressFrames([{ bytes: serialize.call(call, value) }], encoding)
}

/** Throws a status, as the library's own method does. */
function inflateZstd(bytes: Buffer, bytesMax: number): Buffer {
  const outcome = decompressZstd(bytes, bytesMax)
  if (outcome === 'too-large') throw inflatesTooLarge(bytesMax)
  if (outcome === 'damaged') throw damaged
  return outcome
}

function gzip(message: Buffer): Buffer {
  return gzipSync(message, { level })
}

function inflatesTooLarge(bytesMax: number): GrpcStatus {
  const details = `Received message that decompresses to a size larger than ${bytesMax}`
  return { code: grpcCode.resourceExhausted, details }
}

const damaged: GrpcStatus = { code: grpcCode.internal, details: 'Failed to decompress message' }
