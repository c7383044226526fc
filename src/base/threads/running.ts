// Lists the worker threads that run now, for `sluice status`.

interface Counted {
  readonly name: string
  count(): number
}

const registered = new Set<Counted>()

/** Adds threads to the list. Returns the function that removes them. */
export function registerThreads(name: string, count: () => number): () => void {
  const counted = { name, count }
  registered.add(counted)
  return () => void registered.delete(counted)
}

/** Name to number of threads. */
export function runningThreads(): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const { name, count } of registered) counts[name] = (counts[name] ?? 0) + count()
  return counts
}
