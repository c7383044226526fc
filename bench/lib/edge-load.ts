// The loads of the bench `edge` that a native program makes (bench/native/edge-load.c): it is told
// what to send, and tells what it has counted. It ends with the process that has started it.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import type { EdgeBytes } from './edge-line.ts'
import { buildNative } from './native.ts'

export interface LoadCounts {
  /** Connections that were to be made. Some were not, for the client was `late`, or `full`, with too
   *  many of them unanswered. */
  readonly due: number
  readonly late: number
  readonly full: number
  readonly asked: number
  readonly wrong: number
  /** By status, or `closed`. */
  readonly refused: Readonly<Record<string, number>>
}

export interface EdgeLoadOptions {
  readonly mode: 'renew' | 'attack'
  /** What the mode is told besides the targets: the first lines of the program. */
  readonly words: readonly number[]
  readonly targets: readonly EdgeBytes[]
  onCounts(counts: LoadCounts): void
}

/** Resolves when it runs, to what ends it: it waits for the answers to what is under way. A program
 *  that ends before is an unhandled rejection. */
export async function startEdgeLoad(options: EdgeLoadOptions): Promise<() => Promise<void>> {
  const { mode, words, targets, onCounts } = options
  const child = spawn(
    await buildNative('edge-load'),
    [mode, targets.length, ...words].map(String),
    {
      stdio: ['pipe', 'pipe', 'inherit'],
    },
  )
  createInterface({ input: child.stdout }).on('line', (line) => {
    onCounts(JSON.parse(line) as LoadCounts)
  })
  for (const { port, protocol, opening, request } of targets) {
    child.stdin.write(`${port} ${protocol} ${opening.length} ${request.length}\n`)
    child.stdin.write(Buffer.concat([opening, request]))
  }
  const ended = once(child, 'close').then(([code, signal]) => {
    if (code !== 0) throw new Error(`edge-load ended with ${signal ?? code}`)
  })
  return () => {
    child.stdin.end()
    return ended
  }
}
