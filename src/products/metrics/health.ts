// Derives health from the age of the last event, and decides when to close and reopen the streams
// and REST of a service whose source is silent.
//
//   open --age >= 30 s--> draining --2 s--> closed --next event--> open
//    ^------- event --------'                 '--every 30 s: the source is restarted

/** Limits: Healthy threshold. */
const healthyAgeMsMax = 10_000
/** Limits: Shutdown threshold. */
const staleAgeMs = 30_000
/** How long /health returns 503 before the streams close: time for a balancer's check. */
const drainMs = 2_000

export function statusOf(ageMs: number): 'healthy' | 'degraded' {
  return ageMs <= healthyAgeMsMax ? 'healthy' : 'degraded'
}

export function isServing(ageMs: number): boolean {
  return ageMs < staleAgeMs
}

/** Age in whole seconds, rounded down. */
export function ageSecs(ageMs: number): number {
  return Math.floor(Math.max(0, ageMs) / 1000)
}

type StaleState = 'open' | 'draining' | 'closed'
/** What the caller must do now. */
export type StaleStep = 'nothing' | 'drain' | 'recover' | 'close' | 'restart' | 'open'

export class StaleWatch {
  #state: StaleState = 'open'
  /** When the state began, or when the source was last restarted. */
  #sinceMs = 0
  #closedMs = 0

  /** To be called several times a second, with the last event's age and the monotonic time. */
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
        // An event that is not older than the closing arrived after it.
        if (ageMs <= nowMs - this.#closedMs) return this.#enter('open', nowMs, 'open')
        if (nowMs - this.#sinceMs < staleAgeMs) return 'nothing'
        return this.#enter('closed', nowMs, 'restart')
    }
  }

  #enter(state: StaleState, nowMs: number, step: StaleStep): StaleStep {
    this.#state = state
    this.#sinceMs = nowMs
    return step
  }
}
