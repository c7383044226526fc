// Shared stop flag for worker loops that never read their messages.
// The worker finds it as `workerData.control`.
//
//   word 0   0: run   1: stop
//
// A loop checks the flag between two batches.

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

  stop(): void {
    Atomics.store(this.#words, stopAt, 1)
  }
}
