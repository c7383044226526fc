// Which methods a node serves: allow and deny lists whose names may end in *. Thread: any. Pure.
// Called by upstream-node.ts; a verdict is kept per method, for as many as there are real ones.

const verdictsMax = 512

export class MethodList {
  readonly #allow: readonly string[]
  readonly #deny: readonly string[]
  readonly #verdicts = new Map<string, boolean>()

  constructor({ allow, deny }: { allow: readonly string[]; deny: readonly string[] }) {
    this.#allow = allow
    this.#deny = deny
  }

  has(method: string): boolean {
    if (this.#allow.length === 0 && this.#deny.length === 0) return true
    const known = this.#verdicts.get(method)
    if (known !== undefined) return known
    const isAllowed = this.#allow.length === 0 || matchesAny(this.#allow, method)
    const verdict = isAllowed && !matchesAny(this.#deny, method)
    // Names come from callers: what they invent must not grow without end.
    if (this.#verdicts.size >= verdictsMax) this.#verdicts.clear()
    this.#verdicts.set(method, verdict)
    return verdict
  }
}

function matchesAny(patterns: readonly string[], method: string): boolean {
  return patterns.some((pattern) =>
    pattern.endsWith('*') ? method.startsWith(pattern.slice(0, -1)) : method === pattern,
  )
}
