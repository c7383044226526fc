// Which compression the answers to a gRPC call have.
import type { IncomingHttpHeaders } from 'node:http2'

/** Compressions of answers. */
export const grpcEncodings = ['zstd', 'gzip'] as const
export type GrpcEncoding = (typeof grpcEncodings)[number]

/** Compressions of requests, for `grpc-accept-encoding` of an answer. */
export const requestEncodings = 'identity,deflate,gzip,zstd'

/**
 * The compression that a caller asks for; null for none. It is the one of its own requests, or the
 * first one it accepts: libraries that list whatever they can read begin with `identity`.
 */
export function encodingAskedBy(
  headers: IncomingHttpHeaders,
  allowed: readonly string[],
): GrpcEncoding | null {
  const header = headers['grpc-accept-encoding']
  if (typeof header !== 'string') return null
  const accepted = header.split(',').map((name) => name.trim())
  const own = headers['grpc-encoding']
  const asked =
    own !== 'identity' && accepted.some((name) => name === own)
      ? own
      : accepted.find((name) => name === 'identity' || allowed.includes(name))
  return grpcEncodings.find((name) => name === asked && allowed.includes(name)) ?? null
}
