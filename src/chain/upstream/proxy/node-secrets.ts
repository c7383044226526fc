// Whether a text tells where a node stands or how one gets in. Thread: main. Called by attempt.ts
// for errors alone: a node's own words go to customers, its address and token never do.
import type { UpstreamNode } from '../upstream-node.ts'

const secretsOf = new WeakMap<UpstreamNode, readonly string[]>()
/** A path as short as this is no key of a provider. */
const PATH_LENGTH_MIN = 8
const KEY_LENGTH_MIN = 16

export function namesNode(node: UpstreamNode, text: string): boolean {
  let secrets = secretsOf.get(node)
  if (secrets === undefined) {
    secrets = collect(node)
    secretsOf.set(node, secrets)
  }
  return secrets.some((secret) => text.includes(secret))
}

function collect({ addresses }: UpstreamNode): string[] {
  const { xToken, ...ways } = addresses
  const secrets = xToken === '' ? [] : [xToken]
  for (const address of Object.values(ways)) {
    if (address === '') continue
    const { host, hostname, pathname, search, ...url } = partsOf(address)
    secrets.push(host)
    // A name without a dot may be a word of any sentence.
    if (/[.:]/.test(hostname)) secrets.push(hostname)
    for (const part of [pathname, search]) if (part.length >= PATH_LENGTH_MIN) secrets.push(part)
    // Keys are told also without what stands around them.
    secrets.push(...[...pathname.split('/'), ...url.values].filter(isKey))
  }
  return secrets
}

function partsOf(address: string) {
  const { host, hostname, pathname, search, searchParams, username, password } = new URL(address)
  return {
    host,
    hostname,
    pathname,
    search,
    values: [...searchParams.values(), username, password],
  }
}

/** Long, or with a digit in it: `mainnet-beta` is none. */
function isKey(part: string): boolean {
  return part.length >= KEY_LENGTH_MIN || (part.length >= PATH_LENGTH_MIN && /\d/.test(part))
}
