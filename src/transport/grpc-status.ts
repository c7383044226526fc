// gRPC status codes by name, and the trailers that carry a retry delay. Thread: main.
// transport/reply.ts maps refusals to their code; the codes here without a refusal kind (out of
// range, data loss) are for streams only.

export const grpcCode = {
  ok: 0,
  invalidArgument: 3,
  deadlineExceeded: 4,
  notFound: 5,
  permissionDenied: 7,
  resourceExhausted: 8,
  failedPrecondition: 9,
  outOfRange: 11,
  unimplemented: 12,
  internal: 13,
  unavailable: 14,
  dataLoss: 15,
} as const

export interface GrpcStatus {
  readonly code: number
  /** Shown to the caller; never a token. */
  readonly details: string
  /** When a retry makes sense; sent in the trailers. */
  readonly retryAfterMs?: number
}

const retryInfoType = 'type.googleapis.com/google.rpc.RetryInfo'

/**
 * The bytes of `grpc-status-details-bin`: a google.rpc.Status that contains one RetryInfo. Encoded
 * by hand, as three nested messages do not need a codec.
 */
export function retryDetails(status: GrpcStatus, retryAfterMs: number): Buffer {
  const seconds = Math.floor(retryAfterMs / 1000)
  const nanos = Math.round((retryAfterMs - seconds * 1000) * 1e6)
  const duration = Buffer.concat([varintField(1, seconds), varintField(2, nanos)])
  const any = Buffer.concat([
    bytesField(1, Buffer.from(retryInfoType)),
    bytesField(2, bytesField(1, duration)),
  ])
  return Buffer.concat([
    varintField(1, status.code),
    bytesField(2, Buffer.from(status.details)),
    bytesField(3, any),
  ])
}

function varintField(field: number, value: number): Buffer {
  return value === 0 ? Buffer.alloc(0) : Buffer.from([field << 3, ...varint(value)])
}

function bytesField(field: number, bytes: Uint8Array): Buffer {
  return Buffer.concat([Buffer.from([(field << 3) | 2, ...varint(bytes.length)]), bytes])
}

function varint(value: number): number[] {
  const bytes: number[] = []
  let rest = value
  while (rest >= 0x80) {
    bytes.push((rest % 0x80) | 0x80)
    rest = Math.floor(rest / 0x80)
  }
  bytes.push(rest)
  return bytes
}
