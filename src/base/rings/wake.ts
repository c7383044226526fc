// Sleeps on a word of shared memory until another thread clears it and notifies.
// Thread: any; `sleep` blocks and so belongs to workers, `sleepAsync` is for the main thread.
//
// The sleeper stores 1, checks once more for work, and sleeps while the word is 1. The waker
// publishes the work, then reads the word, stores 0 and notifies. One of the two always sees the
// other: either the second check finds the work, or the waker finds the 1. A sleeper that dies
// leaves a 1, which costs the waker one needless notify and nothing else.

interface AsyncWait {
  readonly async: boolean
  readonly value: 'not-equal' | 'timed-out' | Promise<'ok' | 'timed-out'>
}

// Reason for the cast: Node 20 has waitAsync, the compiler's es2023 library does not name it.
const waitAsync = (
  Atomics as unknown as {
    waitAsync(words: Int32Array, at: number, value: number, timeoutMs: number): AsyncWait
  }
).waitAsync

/** Wakes the threads that sleep on the word; costs one load when none does. */
export function wake(words: Int32Array, at: number): void {
  // Sequentially consistent with the preceding store of the work: if this load moved up, a
  // sleeper that set the word meanwhile would sleep although there is work.
  if (Atomics.load(words, at) === 0) return
  // Cleared before the notify, so that a sleeper about to enter `wait` finds 0 and returns.
  Atomics.store(words, at, 0)
  Atomics.notify(words, at)
}

/** Checks for work before sleeping, and iterations of an empty loop between two checks. */
const spinChecks = 32
const pauseIterations = 64

/** Passes some tens of nanoseconds without touching shared memory. */
export function pause(): void {
  for (let iteration = 0; iteration < pauseIterations; iteration += 1);
}

/**
 * Blocks until woken or timed out. Returns at once when `hasWork` is true. Spins for about two
 * microseconds first: under load the next work comes sooner than a sleep would take, and the pause
 * between two checks keeps the spin from contending for the waker's cache line.
 */
export function sleep(
  words: Int32Array,
  at: number,
  timeoutMs: number,
  hasWork: () => boolean,
): void {
  for (let check = 0; check < spinChecks; check += 1) {
    if (hasWork()) return
    pause()
  }
  // Before the last check for work, never after it: see the header of this file.
  Atomics.store(words, at, 1)
  if (!hasWork()) Atomics.wait(words, at, 1, timeoutMs)
}

/**
 * The same without blocking and without spinning. The promise keeps neither the process nor an
 * event loop alive: on the main thread something else (a listener, a timer) must.
 */
export async function sleepAsync(
  words: Int32Array,
  at: number,
  timeoutMs: number,
  hasWork: () => boolean,
): Promise<void> {
  Atomics.store(words, at, 1)
  if (hasWork()) return
  const wait = waitAsync(words, at, 1, timeoutMs)
  if (wait.async) await wait.value
}
