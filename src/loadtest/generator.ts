// Starts calls at their intended times, whatever the endpoint does: an open loop. Thread: load.
// A call that finds every connection busy waits, and its latency counts from its intended start,
// so a stall of the endpoint is seen by every call that it delayed.
//
//   arrivals ──► due: noticed ──► waiting (FIFO) ──► driver.trySend: sent ──► done ──► sample
//
// Below 2 ms to the next arrival the loop turns without sleeping, for Node's timers are whole
// milliseconds: a generator takes a core of its own.
import type { Arrivals } from './arrivals.ts'
import type { Driver, DriverEvents } from './driver.ts'
import { sharedNowMs } from './thread-clock.ts'
import { Tickets } from './tickets.ts'

/** Numbers of one sample: intended, noticed, sent and done (ms, shared clock), and its code. */
export const sampleFields = 5
/** Calls that may wait for a connection or an answer at once. */
const ticketsMax = 4_000_000
const tooMany = `more than ${ticketsMax.toLocaleString('en-US')} calls waited for an answer`
const ticketsStart = 4_096
const chunkSamples = 4_096
const spinBelowMs = 2
const checkEveryMs = 100

export interface GeneratorOptions {
  readonly arrivals: Arrivals
  readonly timeoutMs: number
  /** Called with whole samples and the codes named so far; the chunk belongs to the receiver. */
  emit(samples: Float64Array, codes: readonly string[]): void
}

export class Generator {
  readonly #options: GeneratorOptions
  readonly #tickets = new Tickets(ticketsStart)
  readonly #codes: string[] = ['', 'timeout', 'not sent']
  readonly #codeNumbers = new Map(this.#codes.map((code, index) => [code, index]))
  #chunk = new Float64Array(chunkSamples * sampleFields)
  #filled = 0
  #startMs = 0
  #lastStartMs = 0
  #checkedMs = 0
  #driver: Driver | null = null
  #finish: ((problem: string | null) => void) | null = null

  constructor(options: GeneratorOptions) {
    this.#options = options
  }

  /** The events that the driver of `run` must be given. */
  readonly events: DriverEvents = {
    done: (ticket, code) => this.#done(ticket, code),
    free: () => {
      if (this.#tickets.waitingCount > 0) this.#pump()
    },
  }

  /** Runs from `startMs` to the last answer; a sentence when it had to end before. */
  run(driver: Driver, startMs: number): Promise<string | null> {
    this.#driver = driver
    this.#startMs = startMs
    return new Promise((resolve) => {
      this.#finish = resolve
      this.#turn()
    })
  }

  /** Ends the run; calls without an answer are not counted. */
  stop(): void {
    this.#end(null)
  }

  readonly #turn = (): void => {
    if (this.#finish === null) return
    const nowMs = sharedNowMs()
    const { arrivals } = this.#options
    while (this.#startMs + arrivals.nextMs <= nowMs) {
      this.#lastStartMs = this.#startMs + arrivals.nextMs
      this.#tickets.add(this.#lastStartMs, nowMs, arrivals.call)
      arrivals.advance()
    }
    this.#pump()
    if (nowMs - this.#checkedMs >= checkEveryMs) this.#check(nowMs)
    const leftMs = this.#startMs + arrivals.nextMs - sharedNowMs()
    if (leftMs < spinBelowMs) setImmediate(this.#turn)
    else setTimeout(this.#turn, Math.min(leftMs - 1, checkEveryMs))
  }

  #pump(): void {
    const tickets = this.#tickets
    while (tickets.waitingCount > 0) {
      const ticket = tickets.first()
      const nowMs = sharedNowMs()
      if (!this.#driver!.trySend(tickets.call[ticket]!, ticket)) return
      tickets.sent[ticket] = nowMs
      tickets.shift()
    }
  }

  #done(ticket: number, code: string): void {
    this.#sample(ticket, sharedNowMs(), code)
    this.#tickets.release(ticket)
  }

  #sample(ticket: number, doneMs: number, code: string): void {
    const at = this.#filled
    const { intended, noticed, sent } = this.#tickets
    this.#chunk[at] = intended[ticket]!
    this.#chunk[at + 1] = noticed[ticket]!
    this.#chunk[at + 2] = sent[ticket]!
    this.#chunk[at + 3] = doneMs
    this.#chunk[at + 4] = code === '' ? 0 : this.#numberOf(code)
    this.#filled = at + sampleFields
    if (this.#filled === this.#chunk.length) this.#flush()
  }

  #numberOf(code: string): number {
    const known = this.#codeNumbers.get(code)
    if (known !== undefined) return known
    this.#codeNumbers.set(code, this.#codes.length)
    return this.#codes.push(code) - 1
  }

  #flush(): void {
    const samples = this.#chunk.slice(0, this.#filled)
    this.#filled = 0
    this.#options.emit(samples, this.#codes)
  }

  /** Timeouts, the endpoint's end, the run's end. */
  #check(nowMs: number): void {
    this.#checkedMs = nowMs
    this.#flush()
    const { timeoutMs, arrivals } = this.#options
    this.#expire(nowMs - timeoutMs, nowMs, false)
    const failure = this.#tickets.count > ticketsMax ? tooMany : this.#driver!.failure(nowMs)
    const isLate = nowMs - this.#lastStartMs > timeoutMs && !Number.isFinite(arrivals.nextMs)
    if (failure !== null || isLate) this.#expire(nowMs, nowMs, true)
    const isOver = this.#tickets.count === 0 && !Number.isFinite(arrivals.nextMs)
    if (failure !== null || isOver) this.#end(failure)
  }

  /** Counts calls sent before `sentBeforeMs` as timeouts and, at the end, those never sent. */
  #expire(sentBeforeMs: number, nowMs: number, withWaiting: boolean): void {
    const tickets = this.#tickets
    for (let ticket = 0; ticket < tickets.capacity; ticket += 1) {
      const sentMs = tickets.sent[ticket]!
      if (sentMs === 0 || sentMs > sentBeforeMs) continue
      this.#driver!.abandon(ticket)
      this.#sample(ticket, nowMs, 'timeout')
      tickets.release(ticket)
    }
    for (; withWaiting && tickets.waitingCount > 0; tickets.shift()) {
      this.#sample(tickets.first(), nowMs, 'not sent')
      tickets.release(tickets.first())
    }
  }

  #end(problem: string | null): void {
    if (this.#finish === null) return
    this.#flush()
    this.#finish(problem)
    this.#finish = null
  }
}
