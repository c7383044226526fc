// A connection of the websocket endpoint without a socket, and the budget of a customer without a
// registry.
import { type Clock, systemClock } from '../../src/base/clock.ts'
import { Budget, Plan } from '../../src/customers/quota/budget.ts'
import { type PlanValues, standardPlan } from '../../src/customers/subscriptions/plans.ts'
import type { Session } from '../../src/products/websocket/handle.ts'

/** On the standard plan, but for the values given. */
export function budgetOn(values: Partial<PlanValues> = {}, clock: Clock = systemClock): Budget {
  const window = { window: 0, credits: 0, startsAtMs: 0, endsAtMs: Number.MAX_SAFE_INTEGER }
  return new Budget('sub_a', new Plan({ ...standardPlan, ...values }), window, clock)
}

export interface LooseSession extends Session {
  readonly topics: Set<string>
  /** What was sent to this connection alone. */
  readonly told: string[]
  end(): void
}

export function looseSession(budget: Budget, engine: Session['engine']): LooseSession {
  const topics = new Set<string>()
  const told: string[] = []
  const endings: (() => void)[] = []
  return {
    topics,
    told,
    budget,
    engine,
    notify: (message) => void told.push(String(message)),
    sendNow: (message) => void told.push(Buffer.from(message).toString()),
    join: (topic) => void topics.add(topic),
    leave: (topic) => void topics.delete(topic),
    hasRoom: () => true,
    checkUnsent() {},
    onEnd: (release) => void endings.push(release),
    end: () => {
      for (const release of endings.splice(0)) release()
    },
  }
}
