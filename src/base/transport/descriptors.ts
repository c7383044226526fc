// Keeps file descriptors in reserve and reports when no others are left.
// Without it the kernel leaves a new connection waiting in silence, and nothing of our own (a
// query process, the operator's socket) can be opened. When the last free one is gone the reserve
// is given to the process, and endpoints close every new connection until it can be taken back.
import { closeSync, openSync } from 'node:fs'
import { type Log, LogThrottle } from '../telemetry/log.ts'

const reserveSize = 32
const lookMs = 100
/** After they were exhausted, every new connection triggers a check. */
const tightMs = 10_000

export class DescriptorReserve {
  /** 1 while they are scarce, for other threads of the process. */
  readonly scarcity = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT))
  readonly #log: Log
  readonly #throttle = new LogThrottle()
  readonly #held: number[] = []
  #isScarce = false
  #tightUntilMs = 0

  constructor(log: Log) {
    this.#log = log
    this.look()
    setInterval(() => this.look(), lookMs).unref()
  }

  /** Called for each new connection: false when it is to be closed at once. */
  admits(): boolean {
    if (!this.#isScarce && performance.now() < this.#tightUntilMs) this.look()
    return !this.#isScarce
  }

  /** Takes the reserve where it is missing, and one more to see whether there is one. */
  look(): void {
    const isScarce = !this.#fill(reserveSize + 1)
    if (isScarce) this.#shrink(0)
    else this.#shrink(reserveSize)
    if (isScarce) this.#tightUntilMs = performance.now() + tightMs
    if (isScarce === this.#isScarce) return
    this.#isScarce = isScarce
    Atomics.store(this.scarcity, 0, isScarce ? 1 : 0)
    // Near the limit it comes and goes.
    if (isScarce && this.#throttle.allows('scarce', performance.now()))
      this.#log.error('out of file descriptors: new connections are closed', {
        toDo: 'raise ulimit -n, or LimitNOFILE in the unit',
      })
  }

  #fill(size: number): boolean {
    try {
      while (this.#held.length < size) this.#held.push(openSync('/dev/null', 'r'))
      return true
    } catch {
      return false
    }
  }

  #shrink(size: number): void {
    for (const descriptor of this.#held.splice(size)) closeSync(descriptor)
  }
}

let reserve: DescriptorReserve | null = null
let followed: Pick<DescriptorReserve, 'admits'> | null = null

/** The one of this process, since descriptors are the process's; made with its first endpoint. */
export function descriptorReserve(log: Log): DescriptorReserve {
  reserve ??= new DescriptorReserve(log.area('transport'))
  return reserve
}

/** Who admits connections: the reserve, or in another thread what `followReserve` was given. */
export function descriptorGuard(log: Log): Pick<DescriptorReserve, 'admits'> {
  return followed ?? descriptorReserve(log)
}

/** In a thread: admits by the reserve of the main thread. A second one would use up the first. */
export function followReserve(scarcity: Int32Array): void {
  followed = { admits: () => Atomics.load(scarcity, 0) === 0 }
}
