// gRPC status codes by name, and the trailers that carry a retry delay.
// base/codes.ts maps refusals to their code; the codes here without a refusal kind (out of
// range, data loss, aborted) are for streams only.
import { BackWriter } from '../back-writer.ts'

export const grpcCode = {
  ok: 0,
  invalidArgument: 3,
  deadlineExceeded: 4,
  notFound: 5,
  resourceExhausted: 8,
  failedPrecondition: 9,
  aborted: 10,
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

const writer = new BackWriter()
const retryInfoType = 'type.googleapis.com/google.rpc.RetryInfo'

/** The bytes of `grpc-status-details-bin`: a google.rpc.Status that contains one RetryInfo. */
export function retryDetails(status: GrpcStatus, retryAfterMs: number): Buffer {
  const seconds = Math.floor(retryAfterMs / 1000)
  writer.number(2, Math.round((retryAfterMs - seconds * 1000) * 1e6))
  writer.number(1, seconds)
  // RetryInfo { retry_delay }, in Any { type_url, value }, in Status { code, message, details }.
  writer.wrap(1, 0)
  writer.wrap(2, 0)
  writer.stringAlways(1, retryInfoType)
  writer.wrap(3, 0)
  writer.stringAlways(2, status.details)
  writer.number(1, status.code)
  return writer.take()
}
