// Waits for a condition with a deadline, so that no test sleeps a fixed time.

/** After so long a wait is taken for a hang, however slow the machine: no promise about speed. */
export const hangMs = 120_000
/** A turn of a wait takes 5 ms; one that took longer has waited for a core. */
const turnMsMax = 10

export async function until(
  holds: () => boolean | Promise<boolean>,
  what: string,
  deadlineMs = hangMs,
): Promise<void> {
  const endMs = performance.now() + deadlineMs
  while (!(await holds())) {
    if (performance.now() > endMs) throw new Error(`waited ${deadlineMs} ms for: ${what}`)
    await turn()
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
    await turn()
    const nowMs = performance.now()
    ranMs += Math.min(nowMs - atMs, turnMsMax)
    atMs = nowMs
  }
}

function turn(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 5))
}
