// Measures how long the shred worker is away from its socket, and why. Thread: shred worker.
// A pause lasts from the return of a receive to the next receive: a shred that arrives meanwhile
// waits for the rest of it. The worker's event loop never turns, so that Node's own observers of
// garbage collection see nothing here.
//
//   below 100 us                the cause is what the loop did: forward, or also maintenance
//   the heap became smaller     gc
//   involuntary switches grew   preempted: the kernel ran another thread on this core
import { getHeapStatistics } from 'node:v8'
import { type Libc, pinned } from '../../base/transport/udp-batch.ts'
import { pauseBoundsMs, pauseCauses, type SharedStats } from './shared-stats.ts'

/** Pauses from here on are examined: two calls, 3 us together. */
const examinedMs = 0.1
/** Age at which the heap's size is read again, so that a collection always makes it smaller. */
const heapAgeMsMax = 1000
const usageOfThread = 1
const usageBytes = 144
/** Byte of ru_nivcsw in a struct rusage. */
const involuntaryByte = 136

const [forward, maintenance, gc, preempted] = (
  ['forward', 'maintenance', 'gc', 'preempted'] as const
).map((name) => pauseCauses.indexOf(name)) as [number, number, number, number]

export class Pauses {
  readonly #numbers: Float64Array
  readonly #width: number
  readonly #readSwitches: () => number
  #heapBytes = 0
  #heapReadMs = 0
  #switches = 0

  constructor(libc: Libc, stats: SharedStats) {
    this.#numbers = stats.pauses.numbers
    this.#width = stats.pauses.width
    const usage = pinned(usageBytes)
    const usageAt = libc.addressOf(usage)
    const words = new Uint32Array(usage.buffer)
    this.#readSwitches = () => {
      libc.getrusage(usageOfThread, usageAt)
      return words[involuntaryByte / 4]!
    }
  }

  /** Counts a pause between two times of `performance.now`. */
  record(fromMs: number, toMs: number, isMaintained: boolean): void {
    const ms = toMs - fromMs
    if (toMs - this.#heapReadMs > heapAgeMsMax) this.#readCauses(toMs)
    let cause = isMaintained ? maintenance : forward
    if (ms >= examinedMs) {
      const heapBytes = this.#heapBytes
      const switches = this.#switches
      this.#readCauses(toMs)
      if (this.#heapBytes < heapBytes) cause = gc
      else if (this.#switches !== switches) cause = preempted
    }
    let bucket = 0
    while (bucket < pauseBoundsMs.length && ms > pauseBoundsMs[bucket]!) bucket += 1
    const row = cause * this.#width
    this.#numbers[row + bucket]! += 1
    this.#numbers[row + this.#width - 1]! += ms
  }

  #readCauses(nowMs: number): void {
    this.#heapBytes = getHeapStatistics().used_heap_size
    this.#heapReadMs = nowMs
    this.#switches = this.#readSwitches()
  }
}
