// Parses the endpoints of a bench: `kind=url[,token=…][,token-file=…][,name=…]`.
// A target is printed and stored by its label, which has neither the token nor the URL's path.
import { readFileSync } from 'node:fs'
import { accept, messageOf, type Outcome, refuse } from '../base/errors.ts'
import { nearest } from '../base/nearest.ts'

export interface Target<Kind extends string = string> {
  readonly kind: Kind
  readonly url: URL
  readonly token: string | null
  /** Shown in results: the `name=` of the target, else kind, host and port. */
  readonly label: string
}

const option = /,(token|token-file|name)=/

/** The target that `text` names; `flag` is where it was given, for the error message. */
export function parseTarget<Kind extends string>(
  flag: string,
  text: string,
  kinds: readonly Kind[],
): Outcome<Target<Kind>> {
  const example = `--${flag} ${kinds[0]}=127.0.0.1:${kinds[0] === 'geyser' ? 10010 : 8899}`
  const equals = text.indexOf('=')
  if (equals < 1) return bad(`--${flag} needs kind=url, such as ${example} (${kinds.join(', ')})`)
  const given = text.slice(0, equals)
  const kind = kinds.find((one) => one === given)
  if (kind === undefined) {
    const near = nearest(given, kinds)
    return bad(`--${flag} has no kind "${given}"; the nearest is "${near}" (${kinds.join(', ')})`)
  }
  const [address = '', ...rest] = text.slice(equals + 1).split(option)
  const url = urlOf(kind, address)
  if (url === null)
    return bad(`--${flag} needs a URL after ${kind}=, such as ${kind}=http://host:port`)
  const options = new Map<string, string>()
  for (let index = 0; index < rest.length; index += 2) options.set(rest[index]!, rest[index + 1]!)
  const token = tokenOf(flag, options)
  if (!token.ok) return token
  const label = options.get('name') ?? `${kind} ${url.host}`
  return accept({ kind, url, token: token.value, label })
}

/** A URL, or host:port and a bare port of a protocol that has no scheme of its own. */
function urlOf(kind: string, address: string): URL | null {
  const withHost = /^\d{1,5}$/.test(address) ? `127.0.0.1:${address}` : address
  const whole = /^[a-z][a-z0-9+.-]*:\/\//i.test(withHost)
    ? withHost
    : `${schemeOf(kind)}${withHost}`
  try {
    const url = new URL(whole)
    return url.hostname === '' ? null : url
  } catch {
    return null
  }
}

function schemeOf(kind: string): string {
  if (kind === 'websocket') return 'ws://'
  return kind === 'shreds' ? 'udp://' : 'http://'
}

function tokenOf(flag: string, options: ReadonlyMap<string, string>): Outcome<string | null> {
  const file = options.get('token-file')
  if (file === undefined) return accept(options.get('token') ?? null)
  try {
    return accept(readFileSync(file, 'utf8').trim())
  } catch (error) {
    return bad(`--${flag}: the token file cannot be read: ${messageOf(error)}`)
  }
}

function bad(message: string): Outcome<never> {
  return refuse('invalid', 'usage', message)
}
