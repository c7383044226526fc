// Before any test: compiles once, as workers and the command run in tests as the compiled files.
// After all: fails the run when a process that a test started is left, and ends it.
import { execFileSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { fileURLToPath } from 'node:url'
import { endLeftOver, runVariable } from './left-over.ts'

/** What a process may take to end after the test that ended it. */
const endMs = 5000

export default function setup(): (() => Promise<void>) | undefined {
  // Each project of the run calls this.
  if (process.env[runVariable] !== undefined) return undefined
  const run = randomUUID()
  process.env[runVariable] = run
  const build = fileURLToPath(new URL('../../scripts/build.mjs', import.meta.url))
  execFileSync(process.execPath, [build], { stdio: 'inherit' })
  return () => failOnLeftOver(run)
}

async function failOnLeftOver(run: string): Promise<void> {
  const left = await endLeftOver(run, endMs)
  if (left.length === 0) return
  // Vitest only reports what a teardown throws.
  process.exitCode = 1
  const names = left.map(({ pid, command }) => `${pid} ${command}`)
  throw new Error(`tests left ${left.length} processes running:\n${names.join('\n')}`)
}
