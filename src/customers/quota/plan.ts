// Looks up the weight and the rate cap of a method in a plan.
// All budgets on a plan share one instance; each budget has its own buckets for the caps.
import type { PlanValues } from '../subscriptions/plans.ts'

export interface MethodRule {
  readonly weight: number
  /** Index into `caps`; -1 when the method has no cap. */
  readonly cap: number
}

const defaultWeight = 1

export class Plan {
  readonly values: PlanValues
  /** Calls per second of each cap. */
  readonly caps: readonly number[]
  readonly #weights: readonly Pattern[]
  readonly #caps: readonly Pattern[]
  /** Rules of the exact names in the plan. Names from requests are never stored. */
  readonly #named: ReadonlyMap<string, MethodRule>

  constructor(values: PlanValues) {
    this.values = values
    this.#weights = patternsOf(values.weights)
    this.#caps = patternsOf(values.methodCallsPerSecond)
    this.caps = this.#caps.map(({ value }) => value)
    const named = [...this.#weights, ...this.#caps].filter(({ isPrefix }) => !isPrefix)
    this.#named = new Map(named.map(({ text }) => [text, this.#ruleOf(text)]))
  }

  rule(method: string): MethodRule {
    return this.#named.get(method) ?? this.#ruleOf(method)
  }

  #ruleOf(method: string): MethodRule {
    const weight = this.#weights.find((pattern) => fits(pattern, method))?.value ?? defaultWeight
    return { weight, cap: this.#caps.findIndex((pattern) => fits(pattern, method)) }
  }
}

interface Pattern {
  readonly text: string
  readonly isPrefix: boolean
  readonly value: number
}

/** Exact names first, then the longest prefix: the most specific pattern applies. */
function patternsOf(values: Readonly<Record<string, number>>): Pattern[] {
  const patterns = Object.entries(values).map(([name, value]) => {
    const isPrefix = name.endsWith('*')
    return { text: isPrefix ? name.slice(0, -1) : name, isPrefix, value }
  })
  const rank = (pattern: Pattern) => (pattern.isPrefix ? pattern.text.length : 1_000_000)
  return patterns.sort((a, b) => rank(b) - rank(a))
}

function fits(pattern: Pattern, method: string): boolean {
  return pattern.isPrefix ? method.startsWith(pattern.text) : method === pattern.text
}
