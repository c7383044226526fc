// Reads the headers of gRPC calls, builds the head and the trailers of their answers.
import { Metadata } from '@grpc/grpc-js'
import { type GrpcEncoding, requestEncodings } from './grpc-encoding.ts'
import { type GrpcStatus, retryDetails } from './grpc-status.ts'

/** A status in the form of the library's errors. */
export function errorOf(status: GrpcStatus) {
  const metadata = new Metadata()
  if (status.retryAfterMs !== undefined) {
    metadata.set('grpc-retry-pushback-ms', String(Math.ceil(status.retryAfterMs)))
    metadata.set('grpc-status-details-bin', retryDetails(status, status.retryAfterMs))
  }
  return { name: 'status', message: status.details, ...status, metadata }
}

/** The head of an answer whose messages may be compressed. */
export function headOf(encoding: GrpcEncoding | null): Metadata {
  const head = new Metadata()
  head.set('grpc-accept-encoding', requestEncodings)
  if (encoding !== null) head.set('grpc-encoding', encoding)
  return head
}

/** The first value of a header; undefined when absent. */
export function headerOf(metadata: Metadata, name: string): string | undefined {
  const value = metadata.get(name)[0]
  return typeof value === 'string' ? value : undefined
}

/** An IPv4 address without the prefix that maps it to IPv6. */
export function withoutMapping(address: string): string {
  return address.startsWith('::ffff:') && address.includes('.') ? address.slice(7) : address
}
