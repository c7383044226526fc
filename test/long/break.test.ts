// Breaks the whole service for a while, with load on every endpoint, and checks what must hold: the
// command `npm run break` as a process. The slice, and a machine without PostgreSQL, break one gateway
// alone.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { isSlice } from '../testkit/slice.ts'
import { root } from '../testkit/tree.ts'

/** The same faults in every run of the slice; others in each full one, which prints its seed. */
const options = isSlice
  ? ['--for', '15s', '--seed', '1', '--clients', '3', '--alone']
  : ['--for', '10m', '--seed', String(Date.now() % 1_000_000)]
/** Other tests run beside it, so that its bounds of time are not those of the command. */
const patience = ['--patience', '10']

test('nothing acknowledged is lost, and everything comes back, whatever breaks', async () => {
  const command = join(root, 'dist', 'test', 'break', 'run.js')
  const child = spawn(process.execPath, [command, ...options, ...patience])
  let output = ''
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text
    })
  const [code] = await once(child, 'close')
  console.info(output)
  expect(output).toMatch(/^pass: acknowledged transactions are in the chain/m)
  expect(output).not.toMatch(/^FAIL/m)
  expect(code).toBe(0)
})
