// The smoke run on benches that end, are skipped, throw, warn and hang.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, it } from 'vitest'
import { formatSmoked, runSmoke, type Smoked } from '../../../bench/lib/smoke.ts'

const folder = mkdtempSync(join(tmpdir(), 'sluice-smoke-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const entry = join(folder, 'entry.mjs')
writeFileSync(
  entry,
  `const name = process.argv[3]
  const print = (rows, notes) => console.log(JSON.stringify({ rows, notes }))
  if (name === 'throws') throw new Error('lost 3 answers')
  if (name === 'warns') process.emitWarning('11 exit listeners', 'MaxListenersExceededWarning')
  if (name === 'hangs') setInterval(() => {}, 1000)
  else if (name === 'skipped') print([], ['C left out: no C compiler'])
  else print([{}], ['C left out: not in a smoke run', 'large left out: --full measures it'])
  console.error('round 1 of ' + name)`,
)

it('fails what throws, warns or hangs, and names what is skipped and why', async () => {
  const results = new Map<string, Smoked>()
  const onResult = (result: Smoked) => void results.set(result.name, result)
  await runSmoke(['ends', 'skipped', 'throws', 'warns'], { entry, hangSeconds: 60, onResult })
  await runSmoke(['hangs'], { entry, hangSeconds: 1, onResult })
  expect(results.get('ends')).toMatchObject({ leftOut: [], isSkipped: false })
  expect(results.get('ends')!.problem).toBeUndefined()
  expect(formatSmoked(results.get('skipped')!)).toMatch(/^skipped +skipped .*\n +C left out: no C/)
  expect(results.get('throws')!.problem).toContain('lost 3 answers')
  expect(results.get('warns')!.problem).toContain('MaxListenersExceededWarning')
  expect(results.get('hangs')!.problem).toContain('did not end within 1 s')
})
