// Virtual time: timers, immediates, dates and chance of the process are replaced by ones that a
// seed decides, so that the decisions of the server run as in production, at no cost of time and
// the same way every time. What a callback starts in promises ends before the next callback.
//
//   advance(ms): due timers and immediates, one at a time ─► promises settle ─► the next one
//
// Timers of the same length fire in the order in which they were set, immediates too. Node promises
// no order of timers of other lengths that are due at the same time, nor of timers and immediates:
// there the seed decides.
import crypto from 'node:crypto'
import { syncBuiltinESMExports } from 'node:module'
import timers from 'node:timers'
import timersPromises from 'node:timers/promises'
import type { Clock } from '../../src/base/clock.ts'
import { randomOf } from '../testkit/synthetic-solana.ts'

const real = {
  setImmediate: globalThis.setImmediate,
  Date: globalThis.Date,
  performanceNow: performance.now,
  random: Math.random,
  randomBytes: crypto.randomBytes,
  randomFillSync: crypto.randomFillSync,
  randomInt: crypto.randomInt,
  randomUUID: crypto.randomUUID,
  timersPromises: { ...timersPromises },
}
const timerNames = [
  ...['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval'],
  ...['setImmediate', 'clearImmediate'],
] as const
const realTimers = Object.fromEntries(
  timerNames.map((name) => [name, Reflect.get(globalThis, name)]),
)

/** Callbacks without an end, as of timers of 0 ms that set each other, are a failure. */
const callbacksMax = 1_000_000
const startMs = 1_700_000_000_000

type Callback = (...args: unknown[]) => void

/** A timer or an immediate. */
class Pending {
  readonly run: () => void
  readonly delayMs: number
  readonly isInterval: boolean
  dueMs = 0
  order = 0
  #time: VirtualTime

  constructor(time: VirtualTime, run: () => void, delayMs: number, isInterval: boolean) {
    this.#time = time
    this.run = run
    this.delayMs = delayMs
    this.isInterval = isInterval
  }

  ref(): this {
    return this
  }

  unref(): this {
    return this
  }

  hasRef(): boolean {
    return true
  }

  refresh(): this {
    this.#time.schedule(this)
    return this
  }

  close(): this {
    this.#time.cancel(this)
    return this
  }

  [Symbol.toPrimitive](): number {
    return this.order
  }

  [Symbol.dispose](): void {
    this.close()
  }
}

export class VirtualTime {
  /** Wall-clock and monotonic time: steps of the wall clock leave the monotonic one alone. */
  readonly clock: Clock
  /** For whatever a world decides. */
  readonly random: () => number
  #ms = 0
  #wallMs = startMs
  #order = 0
  readonly #seed: number
  readonly #timers = new Set<Pending>()
  readonly #immediates = new Set<Pending>()
  readonly #ties: () => number

  constructor(seed: number) {
    this.#seed = seed
    this.random = randomOf(seed ^ 0x71e5)
    this.#ties = randomOf(seed ^ 0x0bde)
    this.clock = { nowMs: () => this.#wallMs + this.#ms, monotonicMs: () => this.#ms }
  }

  get ms(): number {
    return this.#ms
  }

  /** Timers that were set and have not fired: what was stopped leaves none. */
  get pending(): number {
    return this.#timers.size + this.#immediates.size
  }

  /** The wall clock is set: dates change, monotonic time and timers do not. */
  stepWallClock(byMs: number): void {
    this.#wallMs += byMs
  }

  /** Runs everything that is due until that much time has passed. */
  async advance(ms: number): Promise<void> {
    const endMs = this.#ms + ms
    await settled()
    for (let count = 0; ; count++) {
      if (count > callbacksMax) throw new Error(`callbacks without an end at ${this.#ms} ms`)
      const next = this.#next(endMs)
      if (next === null) break
      this.#fire(next)
      await settled()
    }
    this.#ms = endMs
  }

  schedule(pending: Pending): void {
    this.#timers.delete(pending)
    pending.order = ++this.#order
    pending.dueMs = this.#ms + pending.delayMs
    this.#timers.add(pending)
  }

  cancel(pending: unknown): void {
    // Reason for the cast: clearTimeout takes anything.
    this.#timers.delete(pending as Pending)
    this.#immediates.delete(pending as Pending)
  }

  timer(callback: Callback, delay: unknown, isInterval: boolean, args: unknown[]): Pending {
    const given = Number(delay)
    const delayMs = given >= 1 && given <= 0x7fffffff ? Math.trunc(given) : 1
    const pending = new Pending(this, () => callback(...args), delayMs, isInterval)
    this.schedule(pending)
    return pending
  }

  immediate(callback: Callback, args: unknown[]): Pending {
    const pending = new Pending(this, () => callback(...args), 0, false)
    pending.order = ++this.#order
    this.#immediates.add(pending)
    return pending
  }

  #fire(pending: Pending): void {
    if (!this.#immediates.delete(pending)) {
      this.#timers.delete(pending)
      if (pending.isInterval) this.schedule(pending)
    }
    pending.run()
  }

  /** The next callback by `endMs`, to whose time the clock is advanced. */
  #next(endMs: number): Pending | null {
    let first: Pending | null = null
    for (const timer of this.#timers)
      if (first === null || this.#isBefore(timer, first)) first = timer
    const [immediate] = this.#immediates
    const isDue = first !== null && first.dueMs <= this.#ms
    if (immediate !== undefined && !(isDue && this.#ties() < 0.5)) return immediate
    if (first === null || first.dueMs > endMs) return null
    if (first.dueMs > this.#ms) this.#ms = first.dueMs
    return first
  }

  #isBefore(a: Pending, b: Pending): boolean {
    if (a.dueMs !== b.dueMs) return a.dueMs < b.dueMs
    if (a.delayMs === b.delayMs) return a.order < b.order
    return this.#tieOf(a) < this.#tieOf(b)
  }

  /** The same for timers of the same length that are due at the same time. */
  #tieOf({ dueMs, delayMs }: Pending): number {
    let mixed = Math.imul(this.#seed ^ (dueMs * 1_000) ^ Math.imul(delayMs, 0x9e3779b1), 0x85ebca6b)
    mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35)
    return (mixed ^ (mixed >>> 16)) >>> 0
  }
}

/** Runs `body` on virtual time that the seed decides; real time is back afterwards. */
export async function onVirtualTime<T>(
  seed: number,
  body: (time: VirtualTime) => Promise<T>,
): Promise<T> {
  const time = new VirtualTime(seed)
  replaceTimers(time)
  replaceDates(time)
  replaceChance(seed)
  syncBuiltinESMExports()
  try {
    return await body(time)
  } finally {
    restore()
  }
}

/** The same with a stage that must be stopped, however its run ends. */
export function runStage<T>(
  seed: number,
  make: (time: VirtualTime) => { run(): Promise<T>; stop(): Promise<void> },
): Promise<T> {
  return onVirtualTime(seed, async (time) => {
    const stage = make(time)
    try {
      return await stage.run()
    } finally {
      await stage.stop()
    }
  })
}

/** All that promises and process.nextTick have to do has been done. */
function settled(): Promise<void> {
  return new Promise((resolve) => void real.setImmediate(resolve))
}

function replaceTimers(time: VirtualTime): void {
  const cancel = (pending: unknown) => time.cancel(pending)
  const replacements = {
    setTimeout: (run: Callback, ms: unknown, ...args: unknown[]) =>
      time.timer(run, ms, false, args),
    setInterval: (run: Callback, ms: unknown, ...args: unknown[]) =>
      time.timer(run, ms, true, args),
    setImmediate: (run: Callback, ...args: unknown[]) => time.immediate(run, args),
    clearTimeout: cancel,
    clearInterval: cancel,
    clearImmediate: cancel,
  }
  Object.assign(globalThis, replacements)
  Object.assign(timers, replacements)
  Object.assign(timersPromises, {
    setTimeout: (ms: number, value: unknown) =>
      new Promise((resolve) => void time.timer(() => resolve(value), ms, false, [])),
    setImmediate: (value: unknown) =>
      new Promise((resolve) => void time.immediate(() => resolve(value), [])),
  })
}

function replaceDates(time: VirtualTime): void {
  const nowMs = () => Math.floor(time.clock.nowMs())
  globalThis.Date = new Proxy(real.Date, {
    construct: (target, args, of) =>
      Reflect.construct(target, args.length === 0 ? [nowMs()] : args, of),
    get: (target, name) => (name === 'now' ? nowMs : Reflect.get(target, name)),
  })
  performance.now = () => time.clock.monotonicMs()
}

function replaceChance(seed: number): void {
  const random = randomOf(seed ^ 0xc4a9)
  Math.random = random
  const fill = (bytes: Uint8Array) => {
    for (let at = 0; at < bytes.length; at++) bytes[at] = Math.floor(random() * 256)
    return bytes
  }
  Object.assign(crypto, {
    randomBytes: (size: number) => fill(Buffer.alloc(size)),
    randomFillSync: fill,
    randomInt: (min: number, max?: number) => {
      const [from, to] = max === undefined ? [0, min] : [min, max]
      return from + Math.floor(random() * (to - from))
    },
    randomUUID: () => {
      const hex = Buffer.from(fill(new Uint8Array(16))).toString('hex')
      const variant = '89ab'[Number.parseInt(hex[16]!, 16) & 3]
      const rest = `${hex.slice(13, 16)}-${variant}${hex.slice(17, 20)}-${hex.slice(20)}`
      return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${rest}`
    },
  })
}

function restore(): void {
  Object.assign(globalThis, realTimers)
  Object.assign(timers, realTimers)
  Object.assign(timersPromises, real.timersPromises)
  globalThis.Date = real.Date
  performance.now = real.performanceNow
  Math.random = real.random
  const { randomBytes, randomFillSync, randomInt, randomUUID } = real
  Object.assign(crypto, { randomBytes, randomFillSync, randomInt, randomUUID })
  syncBuiltinESMExports()
}
