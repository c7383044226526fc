// Runs seeds of every world of the simulation: the command as a process.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { beforeAll, expect, test } from 'vitest'
import { worlds } from '../simulate/worlds.ts'
import { isSlice } from '../testkit/slice.ts'
import { root } from '../testkit/tree.ts'

/** The same seeds in every run: a failure is not one of chance. */
const seeds = isSlice ? 200 : 10_000
const { length } = worlds

let output = ''

beforeAll(async () => {
  const command = join(root, 'dist', 'test', 'simulate', 'run.js')
  const child = spawn(process.execPath, [command, '--seed', '1', '--seeds', String(seeds)])
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text
    })
  await once(child, 'close')
}, 0)

test.each(worlds)('$name: $what', ({ name }) => {
  const [, count] = new RegExp(`^${name}: (\\d+) seeds`, 'm').exec(output) ?? []
  expect(output).not.toContain(`${name}: FAILED`)
  expect(Number(count)).toBeGreaterThanOrEqual(seeds / length)
})

test('every world ends without a failure', () => {
  expect(output).toContain(`${length} of ${length} worlds without a failure`)
})
