// Withholds texts of a node that contain its address, keys or token.
// Every error of a node passes here before a customer or the log gets it, in the proxy and in the
// transaction senders. Secrets are found plain, JSON-escaped or percent-encoded, in any case.
import { unescape as percentDecode } from 'node:querystring'
import { type RpcError, rpcErrors } from '../../base/jsonrpc/build.ts'

/** As in the configuration; '' for none. */
export interface NodeAddresses {
  readonly rpc?: string
  readonly ws?: string
  readonly grpc?: string
  readonly xToken?: string
}

/** A text that is encoded more often than this is withheld unchecked. */
const ENCODINGS_MAX = 5
/** A shorter path or name is not a provider's key. */
const NAME_LENGTH_MIN = 8
const KEY_LENGTH_MIN = 16
/** A shorter password or value occurs in too many words to search for it. */
const VALUE_LENGTH_MIN = 4
const KEY_NAME = /key|token|auth|secret|pass/i
const ENCODED = /\\u([0-9a-f]{4})|\\(.)|%([0-9a-f]{2})/g

export class NodeSecrets {
  /** Lower-case. */
  readonly #secrets: readonly string[]

  constructor({ xToken = '', ...rest }: NodeAddresses) {
    const addresses = Object.values(rest).filter((address) => URL.canParse(address))
    const secrets = [xToken, ...addresses.flatMap((address) => secretsIn(new URL(address)))]
    this.#secrets = [...new Set(secrets.flatMap(formsOf))].filter((secret) => secret !== '')
  }

  /** Whether the text contains a secret of the node. */
  isIn(text: string): boolean {
    let plain = text.toLowerCase()
    for (let round = 0; round < ENCODINGS_MAX; round++) {
      if (this.#secrets.some((secret) => plain.includes(secret))) return true
      const decoded = decodeOnce(plain)
      if (decoded === plain) return false
      plain = decoded
    }
    return true
  }

  /** The error as it is, or its code only when it contains a secret. */
  redactError(error: RpcError): RpcError {
    const text = error.text ?? JSON.stringify(error)
    return this.isIn(text) ? { ...rpcErrors.internal, code: error.code } : error
  }
}

function secretsIn(url: URL): string[] {
  const { protocol, host, hostname, port, pathname, search, username, password } = url
  const secrets = [`//${host}`, `${hostname}:${port || DEFAULT_PORTS[protocol]}`]
  // A name without a dot may be an ordinary word.
  if (/[.:]/.test(hostname)) secrets.push(hostname.replace(/^\[|\]$/g, ''))
  for (const part of [pathname, search]) if (part.length >= NAME_LENGTH_MIN) secrets.push(part)
  secrets.push(...pathname.split('/').filter(isKey))
  for (const [name, value] of url.searchParams)
    if (isKey(value) || (KEY_NAME.test(name) && value.length >= VALUE_LENGTH_MIN))
      secrets.push(value)
  if (username === '' && password === '') return secrets
  const pair = `${percentDecode(username)}:${percentDecode(password)}`
  secrets.push(`${username}:${password}`, pair, Buffer.from(pair).toString('base64'))
  if (isKey(username)) secrets.push(username)
  if (password.length >= VALUE_LENGTH_MIN) secrets.push(password)
  return secrets
}

const DEFAULT_PORTS: Readonly<Record<string, string>> = {
  'http:': '80',
  'https:': '443',
  'ws:': '80',
  'wss:': '443',
}

/** Long, or with a digit in it: `mainnet-beta` is not a key. */
function isKey(part: string): boolean {
  return part.length >= KEY_LENGTH_MIN || (part.length >= NAME_LENGTH_MIN && /\d/.test(part))
}

/** As written and decoded: a text is compared before and after each decoding. */
function formsOf(secret: string): string[] {
  return [secret, decodeOnce(secret.toLowerCase()), percentDecode(secret)].map((form) =>
    form.toLowerCase(),
  )
}

/** Undoes one layer of JSON escapes and percent-encoding; takes lower case. */
function decodeOnce(text: string): string {
  return text.replace(ENCODED, (_, unicode: string, escaped: string, byte: string) =>
    escaped === undefined
      ? String.fromCharCode(Number.parseInt(unicode ?? byte, 16)).toLowerCase()
      : escaped,
  )
}
