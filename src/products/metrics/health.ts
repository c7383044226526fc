// Healthy, degraded, unhealthy: pure functions of the age of the last event, and the watch that
// closes the door of a service which has gone silent. Thread: main. Called by server.ts.
//
//   open --age >= 30 s--> draining --2 s--> closed --next event--> open
//    ^------- event --------'                 '--every 30 s: the source is started again

/** Limits: Healthy threshold. */
export const healthyAgeMsMax = 10_000
/** Limits: Shutdown threshold. */
export const staleAgeMs = 30_000
/** How long /health says 503 before the door closes: time for a balancer to look. */
export const drainMs = 2_000

export function statusOf(ageMs: number): 'healthy' | 'degraded' {
  return ageMs <= healthyAgeMsMax ? 'healthy' : 'degraded'
}

export function isServing(ageMs: number): boolean {
  return ageMs < staleAgeMs
}

/** Ages are told in whole seconds, rounded down. */
export function ageSecs(ageMs: number): number {
  return Math.floor(Math.max(0, ageMs) / 1000)
}

export type StaleState = 'open' | 'draining' | 'closed'
/** What the caller has to do now. */
export type StaleStep = 'nothing' | 'drain' | 'recover' | 'close' | 'restart' | 'open'

export class StaleWatch {
  #state: StaleState = 'open'
  /** When the state began, or when the source was last started again. */
  #sinceMs = 0
  #closedMs = 0

  get state(): StaleState {
    return this.#state
  }

  /** Asked several times a second with the age of the last event and the monotonic time. */
  step(ageMs: number, nowMs: number): StaleStep {
    switch (this.#state) {
      case 'open':
        return isServing(ageMs) ? 'nothing' : this.#enter('draining', nowMs, 'drain')
      case 'draining':
        if (isServing(ageMs)) return this.#enter('open', nowMs, 'recover')
        if (nowMs - this.#sinceMs < drainMs) return 'nothing'
        this.#closedMs = nowMs
        return this.#enter('closed', nowMs, 'close')
      case 'closed':
        // An event that is no older than the closing came after it.
        if (ageMs <= nowMs - this.#closedMs) return this.#enter('open', nowMs, 'open')
        if (nowMs - this.#sinceMs < staleAgeMs) return 'nothing'
        return this.#enter('closed', nowMs, 'restart')
    }
  }

  /** The door could not open: it counts as closed from now on. */
  reopenFailed(nowMs: number): void {
    this.#state = 'closed'
    this.#sinceMs = nowMs
    this.#closedMs = nowMs
  }

  #enter(state: StaleState, nowMs: number, step: StaleStep): StaleStep {
    this.#state = state
    this.#sinceMs = nowMs
    return step
  }
}
