// The only table from a refusal to HTTP status, gRPC status, JSON-RPC code and WebSocket close
// code.
import type { RefusalKind } from './errors.ts'

interface Codes {
  readonly http: number
  readonly grpc: number
  readonly jsonrpc: number
  readonly close: number
}

/** Errors: a missing token is 401 on HTTP and PermissionDenied on gRPC. */
export const codesOf: Readonly<Record<RefusalKind, Codes>> = {
  unauthenticated: { http: 401, grpc: 7, jsonrpc: -32401, close: 1008 },
  // Not near -32005: clients read those codes as a state of the chain and retry in loops.
  exhausted: { http: 429, grpc: 8, jsonrpc: -32429, close: 1013 },
  invalid: { http: 400, grpc: 3, jsonrpc: -32602, close: 1007 },
  'unknown-method': { http: 404, grpc: 12, jsonrpc: -32601, close: 1008 },
  'not-found': { http: 404, grpc: 5, jsonrpc: -32602, close: 1008 },
  rejected: { http: 400, grpc: 9, jsonrpc: -32602, close: 1008 },
  // -32005 is Solana's "node is unhealthy".
  unavailable: { http: 503, grpc: 14, jsonrpc: -32005, close: 1013 },
}

/** JSON-RPC code of an error that the listener itself answers with this HTTP status. */
export function rpcCodeOf(status: number): number {
  if (status === codesOf.exhausted.http) return codesOf.exhausted.jsonrpc
  return status === 500 ? -32603 : -32600
}
