// A word by which a worker is told to stop, for loops that never look at messages.
// Thread: any. Held by threads/dedicated.ts, handed to the worker as `workerData.control`.
//
//   word 0   0: run   1: stop
//
// A loop looks at it between two batches; one that waits without a ring sleeps on it.

const stopAt = 0

export class ControlWord {
  readonly buffer: SharedArrayBuffer
  readonly #words: Int32Array

  constructor(buffer: SharedArrayBuffer = new SharedArrayBuffer(4)) {
    this.buffer = buffer
    this.#words = new Int32Array(buffer)
  }

  get isStopped(): boolean {
    // Atomic so that the compiler cannot keep the old value across turns of a loop.
    return Atomics.load(this.#words, stopAt) === 1
  }

  /** Tells the loop to end and wakes it if it sleeps here. */
  stop(): void {
    // Stored before the notify: a loop on its way into `sleep` then finds it and does not sleep.
    Atomics.store(this.#words, stopAt, 1)
    Atomics.notify(this.#words, stopAt)
  }

  /** Blocks a worker for that long, or until it is stopped. */
  sleep(timeoutMs: number): void {
    Atomics.wait(this.#words, stopAt, 0, timeoutMs)
  }
}
