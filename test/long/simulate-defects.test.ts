// The simulation finds defects: with what prevents one taken out of a module, a seed of its world
// fails, and its command fails again.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { defects } from '../simulate/defects.ts'
import { root } from '../testkit/tree.ts'

const failed = 1

async function simulate(...args: string[]): Promise<{ code: number; output: string }> {
  const command = join(root, 'dist', 'test', 'simulate', 'run.js')
  const child = spawn(process.execPath, [command, ...args])
  let output = ''
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text
    })
  const [code] = await once(child, 'close')
  return { code, output }
}

test.each(defects)('$name: $what', async ({ name, world, from = 1, seeds, fails }) => {
  const defect = ['--defect', name]
  const tried = ['--seed', String(from), '--seeds', String(seeds)]
  const campaign = await simulate(world, ...defect, ...tried)
  expect(campaign.output).toMatch(fails)
  expect(campaign.code).toBe(failed)
  const [, command] = /^again: npm run simulate -- (.+)$/m.exec(campaign.output)!
  const again = await simulate(...command!.split(' '))
  expect(again.output).toMatch(fails)
  const without = command!.replace(defect.join(' '), '').trim()
  const whole = await simulate(...without.split(' '))
  expect(whole.output).toContain('1 of 1 worlds without a failure')
})
