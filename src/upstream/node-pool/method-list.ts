// Which methods a node serves: allow and deny lists whose names may end in *. Thread: any. Pure.
// Verdicts are cached per method, for more methods than there are real ones.

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
    // Names come from callers: invented ones must not grow the cache without bound.
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
