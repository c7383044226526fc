// Shows the calls of customers to a recorder: bodies alone, never a header, a token or a query.
import { whenDone } from '../steps.ts'
import type { GrpcMethod } from './grpc.ts'
import type { StreamEvents } from './grpc-stream.ts'
import type { HttpRoute } from './http.ts'
import type { Body, Reply } from './reply.ts'

/** Of a request or an answer; a longer one is not kept. */
export const callBytesMax = 1024 * 1024

export interface TappedCall {
  readonly product: string
  /** Verb and path of the route, or path of the gRPC method. */
  readonly method: string
  /** The set of nodes that the caller reads; null for the shared one. */
  readonly set: string | null
  /** Names the connection of a session; null where each call is alone. */
  readonly connection: object | null
  /** HTTP status; 0 where there is none. */
  readonly status: number
  /** The stream of the set alone answered. */
  readonly isFromStream: boolean
  readonly request: Uint8Array
  /** Null where it was streamed, or is no answer to this message alone. */
  readonly answer: Uint8Array | string | null
}

export interface CallTap {
  readonly isOn: boolean
  /** Copies what it keeps. Never throws. */
  call(call: TappedCall): void
}

/** What only the product knows of a call. */
export type AboutCall<C> = (
  reply: Reply,
  caller: C,
) => Partial<Pick<TappedCall, 'set' | 'isFromStream'>>

export function tapRoutes<C>(
  routes: readonly HttpRoute<C>[],
  tap: { readonly product: string; readonly calls: CallTap; readonly about?: AboutCall<C> },
): readonly HttpRoute<C>[] {
  const { product, calls, about } = tap
  return routes.map((route): HttpRoute<C> => {
    if (route.isUnrecorded === true) return route
    return {
      ...route,
      handle(request, body, caller) {
        if (!calls.isOn) return route.handle(request, body, caller)
        // The body is valid until the handler first awaits.
        const copy = Uint8Array.from(body)
        return whenDone(route.handle(request, body, caller), (reply) => {
          calls.call({
            ...{ product, method: `${route.verb} ${route.path}`, connection: null },
            ...{ set: null, isFromStream: false, ...about?.(reply, caller) },
            ...{ status: reply.status, request: copy, answer: wholeOf(reply.body) },
          })
          return reply
        })
      },
    }
  })
}

export function tapMethods<C>(
  methods: readonly GrpcMethod<C>[],
  calls: CallTap,
  setOf: (caller: C) => string | null,
): GrpcMethod<C>[] {
  return methods.map((method): GrpcMethod<C> => {
    const about = { product: 'grpc', method: method.path, status: 0, isFromStream: false }
    if (method.kind === 'unary')
      return {
        ...method,
        answer(request, caller) {
          const answered = method.answer(request, caller)
          const answer = answered.ok ? answered.bytes : null
          const own = { set: setOf(caller), connection: null, request, answer }
          if (calls.isOn) calls.call({ ...about, ...own })
          return answered
        },
      }
    return {
      ...method,
      open(stream, caller): StreamEvents {
        const events = method.open(stream, caller)
        const own = { ...about, set: setOf(caller), connection: events, answer: null }
        return {
          message(bytes) {
            if (calls.isOn) calls.call({ ...own, request: bytes })
            events.message(bytes)
          },
          halfClosed: () => events.halfClosed(),
          drained: () => events.drained(),
          closed: () => events.closed(),
        }
      },
    }
  })
}

/** Null for a stream, and for a result that is too long to be copied. */
function wholeOf(body: Body): Uint8Array | string | null {
  if (typeof body === 'string') return body
  if (!('length' in body) || body.length > callBytesMax) return null
  return body instanceof Uint8Array ? body : Buffer.concat(body.pieces)
}
