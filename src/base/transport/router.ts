// Finds the routes of a path that the native router did not match.

interface Routed {
  readonly path: string
}

export class Router<R extends Routed> {
  readonly #exact = new Map<string, R[]>()
  readonly #patterns: { readonly segments: readonly string[]; readonly routes: R[] }[] = []

  /** A `:name` in a path matches one segment, a final `/*` matches the rest. */
  constructor(routes: readonly R[]) {
    for (const route of routes) this.#add(route)
  }

  /** The routes whose path has no pattern. */
  exact(): R[] {
    return [...this.#exact.values()].flat()
  }

  /** The routes of a path, one per verb, with the values of their parameters; exact paths first. */
  find(path: string): { readonly routes: readonly R[]; readonly params: readonly string[] } | null {
    const exact = this.#exact.get(path)
    if (exact !== undefined) return { routes: exact, params: [] }
    const parts = path.split('/')
    for (const { segments, routes } of this.#patterns) {
      const params = matchSegments(segments, parts)
      if (params !== null) return { routes, params }
    }
    return null
  }

  #add(route: R): void {
    if (!route.path.includes(':') && !route.path.endsWith('/*')) {
      this.#exact.set(route.path, [...(this.#exact.get(route.path) ?? []), route])
      return
    }
    const same = this.#patterns.find(({ segments }) => segments.join('/') === route.path)
    if (same === undefined)
      this.#patterns.push({ segments: route.path.split('/'), routes: [route] })
    else same.routes.push(route)
  }
}

function matchSegments(segments: readonly string[], parts: readonly string[]): string[] | null {
  const isOpen = segments.at(-1) === '*'
  const length = isOpen ? segments.length - 1 : segments.length
  if (parts.length < length || (!isOpen && parts.length !== length)) return null
  const params: string[] = []
  for (let index = 0; index < length; index++) {
    if (segments[index]!.startsWith(':')) params.push(parts[index]!)
    else if (segments[index] !== parts[index]) return null
  }
  if (isOpen) params.push(parts.slice(length).join('/'))
  return params
}
