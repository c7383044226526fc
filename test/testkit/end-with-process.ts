// Ends child processes with the process that started them, however that ends: vitest ends its
// workers by SIGTERM, whose default action skips exit handlers.
import type { ChildProcess } from 'node:child_process'

const children = new Set<ChildProcess>()

export function endWithProcess(child: ChildProcess): void {
  if (children.size === 0) {
    process.removeListener('exit', endAll)
    process.removeListener('SIGTERM', leave)
    process.once('exit', endAll)
    process.once('SIGTERM', leave)
  }
  children.add(child)
  child.once('exit', () => children.delete(child))
}

function endAll(): void {
  for (const child of children) child.kill('SIGKILL')
}

function leave(): void {
  process.exit(143)
}
