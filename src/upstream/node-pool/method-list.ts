// Which methods a node serves: allow and deny lists whose names may end in *.

export class MethodList {
  readonly #allow: readonly string[]
  readonly #deny: readonly string[]

  constructor({ allow, deny }: { allow: readonly string[]; deny: readonly string[] }) {
    this.#allow = allow
    this.#deny = deny
  }

  has(method: string): boolean {
    const isAllowed = this.#allow.length === 0 || matchesAny(this.#allow, method)
    return isAllowed && !matchesAny(this.#deny, method)
  }
}

function matchesAny(patterns: readonly string[], method: string): boolean {
  return patterns.some((pattern) =>
    pattern.endsWith('*') ? method.startsWith(pattern.slice(0, -1)) : method === pattern,
  )
}
