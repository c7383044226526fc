// An endpoint in simulated time, for the load generator: no sockets, and a run of a minute takes
// milliseconds. Time passes only while the generator polls.
import { type ArrivalPlan, Arrivals } from '../../src/loadtest/arrivals.ts'
import type { Driver } from '../../src/loadtest/driver.ts'
import { LoadGenerator } from '../../src/loadtest/load-generator.ts'
import { LoadTally } from '../../src/loadtest/load-tally.ts'

/** Time of a poll that does not wait. */
const turnMs = 0.01

export interface Behaviour {
  readonly connections: number
  /** When the call that arrives at that time is answered, and with which error. */
  answer(atMs: number): { readonly atMs: number; readonly code?: string }
  /** From this time on the endpoint is gone. */
  readonly goneAtMs?: number
}

export interface Simulated {
  readonly tally: LoadTally
  readonly problem: string | null
  /** The call numbers in the order in which they were sent. */
  readonly sent: readonly number[]
}

export async function simulate(
  plan: Partial<ArrivalPlan> & { readonly rate: number; readonly durationMs: number },
  behaviour: Behaviour,
  timeoutMs = 60_000,
): Promise<Simulated> {
  let nowMs = 1_000
  const startMs = nowMs
  const tally = new LoadTally(startMs)
  const sent: number[] = []
  const flying = new Map<number, { readonly atMs: number; readonly code?: string }>()
  const whole: ArrivalPlan = { kind: 'constant', seed: 1, callCount: 1, ...plan }
  const generator = new LoadGenerator({
    arrivals: new Arrivals(whole),
    timeoutMs,
    emit: (samples, codes) => tally.add(samples, codes),
    nowMs: () => nowMs,
  })
  const driver: Driver = {
    open: async () => null,
    reconnects: 0,
    notifications: 0,
    policy: null,
    isFree: () => flying.size < behaviour.connections,
    send(call, ticket) {
      sent.push(call)
      const { atMs, code } = behaviour.answer(nowMs - startMs)
      flying.set(ticket, { atMs: atMs + startMs, ...(code === undefined ? {} : { code }) })
    },
    abandon: (ticket) => void flying.delete(ticket),
    failure: (atMs) =>
      atMs - startMs >= (behaviour.goneAtMs ?? Number.POSITIVE_INFINITY) ? 'it is gone' : null,
    poll(waitMs) {
      const next = Math.min(...[...flying.values()].map(({ atMs }) => atMs))
      nowMs = Math.max(nowMs, Math.min(next, nowMs + Math.max(turnMs, waitMs)))
      let events = 0
      for (const [ticket, { atMs, code = '' }] of [...flying]) {
        if (atMs > nowMs || !flying.delete(ticket)) continue
        events += 1
        generator.events.done(ticket, code)
        generator.events.free()
      }
      return events
    },
    close() {},
  }
  const problem = await generator.run(driver, startMs)
  return { tally, problem, sent }
}

/** Answers after `serviceMs`, but nothing while it stalls for `stallMs` in every `everyMs`. */
export function stalling(everyMs: number, stallMs: number, serviceMs = 1) {
  return (atMs: number) => {
    const ready = atMs + serviceMs
    const phase = ready % everyMs
    return { atMs: phase < stallMs ? ready - phase + stallMs : ready }
  }
}

/** Works off one call after another, each in 1 / `perSecond`. */
export function limited(perSecond: number) {
  let freeMs = 0
  return (atMs: number) => {
    freeMs = Math.max(freeMs, atMs) + 1000 / perSecond
    return { atMs: freeMs }
  }
}
