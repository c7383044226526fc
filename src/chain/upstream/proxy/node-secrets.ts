// Whether a text tells where a node stands or how one gets in. Thread: main. Called by attempt.ts
// for errors alone: a node's own words go to customers, its address and token never do.
import type { UpstreamNode } from '../upstream-node.ts'

const secretsOf = new WeakMap<UpstreamNode, readonly string[]>()
/** A path as short as this is no key of a provider. */
const PATH_LENGTH_MIN = 8

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
    const { host, pathname, search } = new URL(address)
    secrets.push(host)
    for (const part of [pathname, search]) if (part.length >= PATH_LENGTH_MIN) secrets.push(part)
  }
  return secrets
}
