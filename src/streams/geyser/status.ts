// The gRPC status of a refusal.
import { codesOf } from '../../base/codes.ts'
import type { Refusal } from '../../base/errors.ts'
import type { GrpcStatus } from '../../base/transport/grpc-status.ts'

export function statusOf(refusal: Refusal): GrpcStatus {
  const status = { code: codesOf[refusal.kind].grpc, details: refusal.message }
  const { retryAfterMs } = refusal
  return retryAfterMs === undefined ? status : { ...status, retryAfterMs }
}
