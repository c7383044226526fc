// Waits for a condition with a deadline, so that no test sleeps a fixed time.

/** After so long a wait is taken for a hang, however slow the machine: no promise about speed. */
export const hangMs = 120_000
const turnMs = 5
/** A turn of a wait takes 5 ms; one that took longer has waited for a core. */
const turnMsMax = 2 * turnMs
/** A condition that asks a server or a page is asked for a fifth of the time at most. */
const askedShare = 1 / 5
const pauseMsMax = 50

export async function until(
  holds: () => boolean | Promise<boolean>,
  what: string,
  deadlineMs = hangMs,
): Promise<void> {
  const endMs = performance.now() + deadlineMs
  for (let askedMs = performance.now(); !(await holds()); askedMs = performance.now()) {
    const nowMs = performance.now()
    if (nowMs > endMs) throw new Error(`waited ${deadlineMs} ms for: ${what}`)
    const pauseMs = (nowMs - askedMs) * (1 / askedShare - 1)
    await pause(Math.min(Math.max(pauseMs, turnMs), pauseMsMax))
  }
}

/**
 * As `until`, where the deadline is what the product promises, or twice that: time in which a busy
 * machine did not run this process does not count.
 */
export async function untilWithin(
  promiseMs: number,
  holds: () => boolean | Promise<boolean>,
  what: string,
): Promise<void> {
  let ranMs = 0
  for (let atMs = performance.now(); !(await holds()); ) {
    if (ranMs > promiseMs) throw new Error(`not within ${promiseMs} ms: ${what}`)
    await pause(turnMs)
    const nowMs = performance.now()
    ranMs += Math.min(nowMs - atMs, turnMsMax)
    atMs = nowMs
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
