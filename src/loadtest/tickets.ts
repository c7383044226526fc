// Calls that were due and are not finished, in typed arrays that grow. Thread: load.
// A ticket is an index; its number is used again after `release`.

export class Tickets {
  intended: Float64Array
  noticed: Float64Array
  /** Zero until the call was sent. */
  sent: Float64Array
  call: Uint32Array
  /** Released tickets, and those never used. */
  #free: Uint32Array
  #freeCount: number
  /** FIFO of tickets that wait for a connection: a ring over `capacity` places. */
  #waiting: Uint32Array
  #head = 0
  #waitingCount = 0
  /** Tickets that were sent, dense, and where each of them is in that list. */
  #flying: Uint32Array
  #flyingAt: Uint32Array
  #flyingCount = 0

  constructor(capacity: number) {
    this.intended = new Float64Array(capacity)
    this.noticed = new Float64Array(capacity)
    this.sent = new Float64Array(capacity)
    this.call = new Uint32Array(capacity)
    this.#free = Uint32Array.from({ length: capacity }, (_, index) => capacity - 1 - index)
    this.#freeCount = capacity
    this.#waiting = new Uint32Array(capacity)
    this.#flying = new Uint32Array(capacity)
    this.#flyingAt = new Uint32Array(capacity)
  }

  get capacity(): number {
    return this.call.length
  }

  /** Waiting and sent together. */
  get count(): number {
    return this.capacity - this.#freeCount
  }

  get waitingCount(): number {
    return this.#waitingCount
  }

  /** A new ticket at the end of the queue. */
  add(intendedMs: number, noticedMs: number, call: number): void {
    if (this.#freeCount === 0) this.#grow()
    const ticket = this.#free[--this.#freeCount]!
    this.intended[ticket] = intendedMs
    this.noticed[ticket] = noticedMs
    this.sent[ticket] = 0
    this.call[ticket] = call
    this.#waiting[(this.#head + this.#waitingCount) % this.capacity] = ticket
    this.#waitingCount += 1
  }

  /** The ticket that has waited longest; only while `waitingCount` is not 0. */
  first(): number {
    return this.#waiting[this.#head]!
  }

  /** Takes the first ticket out of the queue: it was sent at that time. */
  shift(sentMs: number): void {
    const ticket = this.first()
    this.#head = (this.#head + 1) % this.capacity
    this.#waitingCount -= 1
    this.sent[ticket] = sentMs
    this.#flyingAt[ticket] = this.#flyingCount
    this.#flying[this.#flyingCount++] = ticket
  }

  /** Sent tickets, a copy: they may be released while one walks through it. */
  flying(): Uint32Array {
    return this.#flying.slice(0, this.#flyingCount)
  }

  /** Only of a ticket that was sent. */
  release(ticket: number): void {
    const at = this.#flyingAt[ticket]!
    const last = this.#flying[--this.#flyingCount]!
    this.#flying[at] = last
    this.#flyingAt[last] = at
    this.#free[this.#freeCount++] = ticket
  }

  #grow(): void {
    const old = this.capacity
    const capacity = old * 2
    const waiting = new Uint32Array(capacity)
    for (let index = 0; index < this.#waitingCount; index += 1)
      waiting[index] = this.#waiting[(this.#head + index) % old]!
    this.#waiting = waiting
    this.#head = 0
    this.intended = larger(this.intended, capacity)
    this.noticed = larger(this.noticed, capacity)
    this.sent = larger(this.sent, capacity)
    this.call = larger(this.call, capacity)
    this.#flying = larger(this.#flying, capacity)
    this.#flyingAt = larger(this.#flyingAt, capacity)
    this.#free = new Uint32Array(capacity)
    for (let ticket = capacity - 1; ticket >= old; ticket -= 1)
      this.#free[this.#freeCount++] = ticket
  }
}

function larger<T extends Float64Array | Uint32Array>(values: T, capacity: number): T {
  // Reason for the cast: the constructor of an array is of its own type.
  const grown = new (values.constructor as new (length: number) => T)(capacity)
  grown.set(values)
  return grown
}
