// Finds the token in a request's credentials, by the precedence of each endpoint.
// Pure: endpoints pass header values in, never a request.
import type { Subscription } from '../subscriptions/subscription.ts'

const products = ['rpc', 'websocket', 'grpc', 'indexer', 'tpu', 'metrics'] as const
/** `feeds`: what the index is built from, for indexers alone. */
export const endpoints = [...products, 'feeds'] as const
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

/**
 * What a refused caller is told: `none` was sent, or it is not valid, whatever is wrong with it.
 * A repeated header is a wrong one.
 */
export function refusedToken(endpoint: Endpoint, credentials: Credentials): 'none' | 'invalid' {
  const isSent = credentials.repeated === true || tokenIn(endpoint, credentials) !== null
  return isSent ? 'invalid' : 'none'
}

/** For every way in which a token can be wrong. */
export const invalidToken =
  'the token is not valid: unknown, rotated, suspended, expired, or not for this product or address'

/** The token of `Bearer <token>`; null for another scheme or an empty token. */
function bearerToken(authorization: string): string | null {
  const end = bearer.length
  const gap = authorization.charCodeAt(end)
  if (gap !== 0x20 && gap !== 0x09) return null
  for (let index = 0; index < end; index++)
    if ((authorization.charCodeAt(index) | 0x20) !== bearer.charCodeAt(index)) return null
  return authorization.slice(end + 1).trim() || null
}

// Parses the database credentials of an indexer query: HTTP Basic, or ClickHouse's two headers.
// Pure: text in, pair out; gate.ts compares digests.

export interface BasicPair {
  readonly user: string
  readonly password: string
}

/**
 * The credentials of a pair whose password is `<password>.<token>`, for clients that can send a
 * pair and nothing else. Null without a dot; neither half that we issue contains one.
 */
export function tokenInPassword({
  user,
  password,
}: BasicPair): Required<Pick<Credentials, 'basic' | 'xToken'>> | null {
  const dot = password.lastIndexOf('.')
  if (dot < 0) return null
  return { basic: { user, password: password.slice(0, dot) }, xToken: password.slice(dot + 1) }
}

const basicForm = /^basic[ \t]+([0-9A-Za-z+/]+={0,2})[ \t]*$/i
/** A user we issue has 12 characters and a password 32; anything longer cannot be valid. */
const pairCharsMax = 256

/**
 * Takes HTTP Basic when it is present, else `X-ClickHouse-User` with `X-ClickHouse-Key`, which
 * ClickHouse clients send instead. Null when neither is complete.
 */
export function basicPair(headers: {
  readonly authorization?: string
  readonly clickHouseUser?: string
  readonly clickHouseKey?: string
}): BasicPair | null {
  const encoded = basicForm.exec(headers.authorization ?? '')?.[1]
  if (encoded !== undefined) return decodePair(encoded)
  const { clickHouseUser: user, clickHouseKey: password } = headers
  return user && password ? { user, password } : null
}

function decodePair(encoded: string): BasicPair | null {
  if (encoded.length > pairCharsMax) return null
  const text = Buffer.from(encoded, 'base64').toString('utf8')
  const colon = text.indexOf(':')
  if (colon < 1 || colon === text.length - 1) return null
  return { user: text.slice(0, colon), password: text.slice(colon + 1) }
}
