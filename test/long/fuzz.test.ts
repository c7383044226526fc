// Fuzzes every parser of bytes from outside: the fuzzer as a process, two targets at once.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { beforeAll, expect, test } from 'vitest'
import { targetNames } from '../fuzz/targets.ts'
import { isSlice } from '../testkit/slice.ts'
import { root } from '../testkit/tree.ts'

const jobs = 2
/** The same inputs in every run of the slice; others in each full one, which reports its seed. */
const options = isSlice
  ? ['--executions', '20000', '--seed', '1']
  : ['--executions', '1000000', '--seed', String(Date.now() % 1_000_000)]

let output = ''

beforeAll(async () => {
  const fuzzer = join(root, 'dist', 'test', 'fuzz', 'run.js')
  const child = spawn(process.execPath, [fuzzer, ...options, '--jobs', String(jobs)])
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text
    })
  await once(child, 'close')
}, 0)

test.each(targetNames)('%s: no input breaks its property', (name) => {
  expect(output).toMatch(new RegExp(`^${name}: \\d+ executions`, 'm'))
  expect(output).not.toContain(`${name}: FAILED`)
})

test('every target ends without a failure', () => {
  expect(output).toContain(`${targetNames.length} of ${targetNames.length} targets`)
})
