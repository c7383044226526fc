// Sleeping on a word of shared memory until its writer clears it. Thread: any; `sleep` blocks and
// so belongs to workers, `sleepAsync` is for the main thread.
//
// The sleeper stores 1, looks once more whether there is work, and sleeps while the word is 1.
// The waker does its work, then looks at the word, stores 0 and notifies. One of the two always
// sees the other: either the second look finds the work, or the waker finds the 1. A sleeper that
// dies leaves a 1 behind, which costs the waker one needless notify and nothing else.

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

/** Wakes whoever sleeps on the word; costs one load when nobody does. */
export function wake(words: Int32Array, at: number): void {
  // Sequentially consistent with the store of the work before it: were this load to move up, a
  // sleeper that set the word meanwhile would sleep through the work.
  if (Atomics.load(words, at) === 0) return
  // Cleared before the notify, so that a sleeper on its way into `wait` finds 0 and returns.
  Atomics.store(words, at, 0)
  Atomics.notify(words, at)
}

/** Looks for work before going to sleep, and the turns of an empty loop between two looks. */
const looks = 32
const pauseTurns = 64

/**
 * Blocks until woken or timed out. Returns at once when `hasWork` holds. Looks for some two
 * microseconds first: under load the next work comes sooner than a sleep would take, and the pause
 * between the looks leaves the waker's cache line alone.
 */
export function sleep(
  words: Int32Array,
  at: number,
  timeoutMs: number,
  hasWork: () => boolean,
): void {
  for (let look = 0; look < looks; look += 1) {
    if (hasWork()) return
    for (let turn = 0; turn < pauseTurns; turn += 1);
  }
  // Before the last look at the work, never after it: see the head of this file.
  Atomics.store(words, at, 1)
  if (!hasWork()) Atomics.wait(words, at, 1, timeoutMs)
}

/**
 * The same without blocking. The promise keeps neither the process nor an event loop alive: on
 * the main thread something else (a listening door, a timer) must.
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
