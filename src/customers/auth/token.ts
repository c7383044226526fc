// Finds the token in a request's credentials, by the precedence of each endpoint.
// Pure: endpoints pass header values in, never a request.
import type { Subscription } from '../subscriptions/subscription.ts'
import type { BasicPair } from './basic.ts'

export const endpoints = ['rpc', 'websocket', 'grpc', 'indexer', 'tpu', 'metrics'] as const
export type Endpoint = (typeof endpoints)[number]

/** The credential headers and query parameters of a request. An empty text counts as absent. */
export interface Credentials {
  readonly xToken?: string
  readonly authorization?: string
  readonly xApiKey?: string
  /** `?api-key=` */
  readonly queryApiKey?: string
  /** `?api_key=` */
  readonly queryApi_key?: string
  /** In the URL or subprotocol of a WebSocket handshake, where the endpoint takes it there. */
  readonly handshakeToken?: string
  /** A credential header occurs twice: the request is invalid, whatever the values are. */
  readonly repeated?: boolean
  /** The database credentials; only the indexer needs them. */
  readonly basic?: BasicPair | null
}

/** The authenticated caller. */
export interface Principal {
  readonly subscription: Subscription
  /** Hex SHA-256 of the token it came with. */
  readonly digest: string
}

/** The client address, or an object with a lazy `address` that is read only when a rule needs it,
 *  because finding the address can cost as much as the token check. */
export type Origin = string | { readonly address: string }

const bearer = 'bearer'

/** The first token present in this endpoint's order of precedence; null without a token. */
export function tokenIn(endpoint: Endpoint, credentials: Credentials): string | null {
  if (credentials.repeated === true) return null
  if (credentials.xToken) return credentials.xToken
  // On the indexer the Authorization header is for the database credentials.
  if (endpoint === 'indexer') return null
  if (credentials.authorization) {
    const token = bearerToken(credentials.authorization)
    if (token !== null) return token
  }
  if (endpoint === 'websocket') return credentials.handshakeToken || null
  if (endpoint !== 'rpc') return null
  return credentials.xApiKey || credentials.queryApiKey || credentials.queryApi_key || null
}

/** The token of `Bearer <token>`; null for another scheme or an empty token. */
function bearerToken(authorization: string): string | null {
  const end = bearer.length
  const gap = authorization.charCodeAt(end)
  if (gap !== 0x20 && gap !== 0x09) return null
  for (let index = 0; index < end; index++)
    if ((authorization.charCodeAt(index) | 0x20) !== bearer.charCodeAt(index)) return null
  return authorization.slice(end + 1).trim() || null
}
