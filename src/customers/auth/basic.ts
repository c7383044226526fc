// Parses the database credentials of an indexer query: HTTP Basic, or ClickHouse's two headers.
// Pure: text in, pair out; gate.ts compares digests.

export interface BasicPair {
  readonly user: string
  readonly password: string
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
