// Waits for a condition with a deadline, so that no test sleeps a fixed time.

/** After so long a wait is taken for a hang, however slow the machine: no promise about speed. */
export const hangMs = 120_000

export async function until(
  holds: () => boolean | Promise<boolean>,
  what: string,
  deadlineMs = hangMs,
): Promise<void> {
  const endMs = performance.now() + deadlineMs
  while (!(await holds())) {
    if (performance.now() > endMs) throw new Error(`waited ${deadlineMs} ms for: ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}
