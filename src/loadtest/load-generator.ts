// Starts calls at their intended times, whatever the endpoint does: an open loop. Thread: load.
// A call that finds every connection busy waits, and its latency counts from its intended start,
// so a stall of the endpoint is seen by every call that it delayed.
//
//   arrivals ──► due: noticed ──► waiting (FIFO) ──► driver.send: sent ──► done ──► sample
//
// Node's timers are whole milliseconds, so below 2 ms to the next arrival the loop turns without
// sleeping: a generator takes a core of its own. A driver that is polled sleeps until just before
// the arrival, and turns without sleeping for the rest. Time with nothing to do is idle time.
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
/** Longest time without a turn of Node's event loop: its messages and timers wait so long. */
const pollTurnMs = 5
/** A sleep ends this long before an arrival: the kernel wakes a thread late. */
const wakeEarlyMs = 0.1

export interface GeneratorOptions {
  readonly arrivals: Arrivals
  readonly timeoutMs: number
  /** Called with whole samples and the codes named so far; the chunk belongs to the receiver. */
  emit(samples: Float64Array, codes: readonly string[]): void
  /** The clock of a simulation; left out, that of the threads. */
  readonly nowMs?: () => number
}

export class LoadGenerator {
  readonly #options: GeneratorOptions
  readonly #nowMs: () => number
  readonly #tickets = new Tickets(ticketsStart)
  readonly #codes: string[] = ['', 'timeout', 'not sent']
  readonly #codeNumbers = new Map(this.#codes.map((code, index) => [code, index]))
  #chunk = new Float64Array(chunkSamples * sampleFields)
  #filled = 0
  #startMs = 0
  #lastStartMs = 0
  #checkedMs = 0
  /** Calls noticed, sent and done: a turn that changed nothing was idle. */
  #steps = 0
  #answered = 0
  #stepsBefore = 0
  #turnedMs = 0
  #idleMs = 0
  #wasSpinning = false
  readonly #busy = new BusyWatch()
  #driver: Driver | null = null
  #finish: ((problem: string | null) => void) | null = null

  constructor(options: GeneratorOptions) {
    this.#options = options
    this.#nowMs = options.nowMs ?? sharedNowMs
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
      if (driver.poll === null) this.#turn()
      else this.#turnPolled()
    })
  }

  /** Ends the run; calls without an answer are not counted. */
  stop(): void {
    this.#end(null)
  }

  /** Calls that were answered, the warm-up's too. */
  get answered(): number {
    return this.#answered
  }

  /** Share of its time that the thread was busy, of the whole run and of its worst second. */
  get busy(): BusyWatch {
    return this.#busy
  }

  readonly #turn = (): void => {
    if (this.#finish === null) return
    const nowMs = this.#nowMs()
    if (this.#wasSpinning && this.#steps === this.#stepsBefore)
      this.#idleMs += nowMs - this.#turnedMs
    const leftMs = this.#advance(nowMs)
    this.#turnedMs = this.#nowMs()
    this.#stepsBefore = this.#steps
    // While calls wait for a connection, an answer wakes the loop.
    this.#wasSpinning = leftMs < spinBelowMs && this.#tickets.waitingCount === 0
    if (this.#wasSpinning) setImmediate(this.#turn)
    else setTimeout(this.#turn, Math.min(Math.max(1, leftMs - 1), checkEveryMs))
  }

  /** The same for a driver that is polled; Node's event loop gets a turn every few milliseconds. */
  readonly #turnPolled = (): void => {
    const poll = this.#driver!.poll!
    let nowMs = this.#nowMs()
    const untilMs = nowMs + pollTurnMs
    while (nowMs < untilMs && this.#finish !== null) {
      const leftMs = this.#advance(nowMs)
      const isBlocked = this.#tickets.waitingCount > 0
      const sleepMs = isBlocked ? pollTurnMs : Math.min(pollTurnMs, leftMs - wakeEarlyMs)
      const beforeMs = this.#nowMs()
      const events = poll(Math.max(0, sleepMs))
      nowMs = this.#nowMs()
      if (events === 0) this.#idleMs += nowMs - beforeMs
    }
    if (this.#finish !== null) setImmediate(this.#turnPolled)
  }

  /** Starts what is due, checks now and then; returns the time to the next arrival. */
  #advance(nowMs: number): number {
    this.#notice(nowMs)
    this.#pump()
    if (nowMs - this.#checkedMs >= checkEveryMs) this.#check(nowMs)
    return this.#startMs + this.#options.arrivals.nextMs - nowMs
  }

  /** Takes every arrival that is due. Behind waiting calls, it is not noticed late by our fault. */
  #notice(nowMs: number): void {
    const { arrivals } = this.#options
    const tickets = this.#tickets
    while (this.#startMs + arrivals.nextMs <= nowMs) {
      const dueMs = this.#startMs + arrivals.nextMs
      tickets.add(dueMs, tickets.waitingCount > 0 ? dueMs : nowMs, arrivals.call)
      this.#lastStartMs = dueMs
      this.#steps += 1
      arrivals.advance()
    }
  }

  #pump(): void {
    const tickets = this.#tickets
    const driver = this.#driver!
    while (tickets.waitingCount > 0 && driver.isFree()) {
      const ticket = tickets.first()
      tickets.shift(this.#nowMs())
      this.#steps += 1
      driver.send(tickets.call[ticket]!, ticket)
    }
  }

  #done(ticket: number, code: string): void {
    this.#steps += 1
    this.#answered += 1
    this.#sample(ticket, this.#nowMs(), code)
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
    this.#busy.observe(nowMs, this.#idleMs)
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
    for (const ticket of tickets.flying()) {
      if (tickets.sent[ticket]! > sentBeforeMs) continue
      this.#driver!.abandon(ticket)
      this.#sample(ticket, nowMs, 'timeout')
      tickets.release(ticket)
    }
    while (withWaiting && tickets.waitingCount > 0) {
      const ticket = tickets.first()
      tickets.shift(nowMs)
      this.#sample(ticket, nowMs, 'not sent')
      tickets.release(ticket)
    }
  }

  #end(problem: string | null): void {
    if (this.#finish === null) return
    this.#flush()
    this.#finish(problem)
    this.#finish = null
  }
}

const windowMs = 1_000

/** A loop that is busy all the time is the bottleneck: what it measures is its own queue. */
class BusyWatch {
  /** Of the busiest second. */
  worst = 0
  #elapsedMs = 0
  #busyMs = 0
  #before: { readonly nowMs: number; readonly idleMs: number } | null = null
  #windowElapsedMs = 0
  #windowBusyMs = 0

  /** Milliseconds in which the thread worked. */
  get busyMs(): number {
    return this.#busyMs
  }

  get share(): number {
    return this.#elapsedMs === 0 ? 0 : this.#busyMs / this.#elapsedMs
  }

  /** `spunMs`: time so far in turns of the loop that found nothing to do. */
  observe(nowMs: number, spunMs: number): void {
    const idleMs = performance.eventLoopUtilization().idle + spunMs
    const before = this.#before
    this.#before = { nowMs, idleMs }
    if (before === null) return
    const elapsedMs = nowMs - before.nowMs
    const busyMs = Math.min(elapsedMs, Math.max(0, elapsedMs - (idleMs - before.idleMs)))
    this.#elapsedMs += elapsedMs
    this.#busyMs += busyMs
    this.#windowElapsedMs += elapsedMs
    this.#windowBusyMs += busyMs
    if (this.#windowElapsedMs < windowMs) return
    this.worst = Math.max(this.worst, this.#windowBusyMs / this.#windowElapsedMs)
    this.#windowElapsedMs = 0
    this.#windowBusyMs = 0
  }
}
