// What a plan says about a method: its weight and its cap. Thread: any. Pure.
// Shared by all budgets on the plan; each budget keeps buckets of its own for the caps.
import type { PlanValues } from '../subscriptions/plans.ts'

export interface MethodRule {
  readonly weight: number
  /** Index into `caps`; -1 when the method has none. */
  readonly cap: number
}

const weightOfOthers = 1
/** Method names come from customers: past this many, rules are worked out again each time. */
const rulesMax = 1000

export class Plan {
  readonly values: PlanValues
  /** Calls per second of each cap. */
  readonly caps: readonly number[]
  readonly #weights: Pattern[]
  readonly #caps: Pattern[]
  readonly #rules = new Map<string, MethodRule>()

  constructor(values: PlanValues) {
    this.values = values
    this.#weights = patternsOf(values.weights)
    this.#caps = patternsOf(values.methodCallsPerSecond)
    this.caps = this.#caps.map(({ value }) => value)
  }

  rule(method: string): MethodRule {
    const known = this.#rules.get(method)
    if (known !== undefined) return known
    const weight = this.#weights.find((pattern) => fits(pattern, method))?.value ?? weightOfOthers
    const rule = { weight, cap: this.#caps.findIndex((pattern) => fits(pattern, method)) }
    if (this.#rules.size < rulesMax) this.#rules.set(method, rule)
    return rule
  }
}

interface Pattern {
  readonly text: string
  readonly isPrefix: boolean
  readonly value: number
}

/** Exact names first, then the longest prefix: the most particular line decides. */
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
