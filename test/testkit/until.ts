// Waits for a condition with a deadline, so that no test sleeps a fixed time.

export async function until(
  holds: () => boolean | Promise<boolean>,
  what: string,
  deadlineMs = 10_000,
): Promise<void> {
  const endMs = performance.now() + deadlineMs
  while (!(await holds())) {
    if (performance.now() > endMs) throw new Error(`waited ${deadlineMs} ms for: ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}
