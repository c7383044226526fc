// Shared stop flag for worker loops that never read their messages.
// The worker finds it as `workerData.control`.
//
//   word 0   0: run   1: stop
//
// A loop checks the flag between two batches; a loop that waits without a ring sleeps on it.

const stopAt = 0

export class ControlWord {
  readonly buffer: SharedArrayBuffer
  readonly #words: Int32Array

  constructor(buffer: SharedArrayBuffer = new SharedArrayBuffer(4)) {
    this.buffer = buffer
    this.#words = new Int32Array(buffer)
  }

  get isStopped(): boolean {
    // Atomic so that the compiler cannot keep the old value across iterations of a loop.
    return Atomics.load(this.#words, stopAt) === 1
  }

  /** Sets the flag and wakes the loop if it sleeps here. */
  stop(): void {
    // Stored before the notify: a loop about to enter `sleep` then sees it and does not sleep.
    Atomics.store(this.#words, stopAt, 1)
    Atomics.notify(this.#words, stopAt)
  }

  /** Blocks a worker until the timeout or until it is stopped. */
  sleep(timeoutMs: number): void {
    Atomics.wait(this.#words, stopAt, 0, timeoutMs)
  }
}
