// Lists the worker threads that run now, for `sluice status`, and kills the child processes of a
// start that is abandoned.
import type { ChildProcess } from 'node:child_process'

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

const processes = new Set<ChildProcess>()

/** Adds a child process to those that `killProcesses` ends. */
export function registerProcess(child: ChildProcess): void {
  processes.add(child)
  child.once('exit', () => processes.delete(child))
}

/** Kills every child process at once; what each stores survives that. */
export function killProcesses(): void {
  for (const child of processes) child.kill('SIGKILL')
}

/** Name to number of threads. */
export function runningThreads(): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const { name, count } of registered) counts[name] = (counts[name] ?? 0) + count()
  return counts
}
