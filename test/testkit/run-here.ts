// Runs a `sluice` command in the process of the test, with the test's environment: for what does
// not depend on a process of its own, which takes a hundred times as long.
import { dispatch } from '../../src/operator/commands/dispatch.ts'
import type { Ran } from './command.ts'

export async function runHere(...words: string[]): Promise<Ran> {
  const written = { stdout: '', stderr: '' }
  const names = ['stdout', 'stderr'] as const
  const before = names.map((name) => process[name].write)
  for (const name of names)
    process[name].write = (text) => {
      written[name] += String(text)
      return true
    }
  try {
    const code = await dispatch(words)
    return { code, ...written, json: () => JSON.parse(written.stdout) }
  } finally {
    for (const [at, name] of names.entries()) process[name].write = before[at]!
  }
}
