// The smoke run on stand-ins of benches that end, are skipped, throw, answer wrongly, warn, hang and
// leave a process running.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterAll, expect, it } from 'vitest'
import { formatSmoked, runSmoke, type Smoked } from '../../../bench/lib/smoke.ts'
import { packageRoot } from '../../../src/base/package-root.ts'
import { until } from '../../testkit/until.ts'

const folder = mkdtempSync(join(tmpdir(), 'sluice-smoke-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const rounds = pathToFileURL(join(packageRoot(), 'dist', 'bench', 'lib', 'rounds.js')).href
const entry = join(folder, 'entry.mjs')
writeFileSync(
  entry,
  `import { spawn } from 'node:child_process'
  import { writeFileSync } from 'node:fs'
  const name = process.argv[3]
  const print = (rows, notes) => console.log(JSON.stringify({ rows, notes, cpuSeconds: 0.25 }))
  const start = (file, options) => {
    const child = spawn('sleep', ['60'], { stdio: 'ignore', ...options })
    child.unref()
    writeFileSync(${JSON.stringify(folder)} + '/' + file, String(child.pid))
  }
  if (name === 'throws') throw new Error('lost 3 answers')
  if (name === 'warns') process.emitWarning('11 exit listeners', 'MaxListenersExceededWarning')
  if (name === 'leaves') start('left', { detached: true })
  if (name === 'wrong') {
    const { runBench } = await import(${JSON.stringify(rounds)})
    const baseline = { name: 'one', run: async () => ({ opsPerSecond: 1, evidence: { wrong: 3 } }) }
    const verify = ({ evidence }) => evidence.wrong === 0 ? undefined : evidence.wrong + ' are wrong'
    const bench = { name, question: '', cores: 1, baseline, candidates: [], verify }
    await runBench(bench, { seconds: 0.01, rounds: 1, smoke: true, progress() {} })
  }
  if (name === 'hangs') {
    start('hung', {})
    setInterval(() => {}, 1000)
  }
  else if (name === 'skipped') print([], ['C left out: no C compiler'])
  else {
    console.log('told by the bench')
    print([{}], ['C left out: not in a smoke run', 'large left out: --full measures it'])
  }
  console.error('round 1 of ' + name)`,
)

async function smoke(hangSeconds: number, ...names: string[]): Promise<(name: string) => Smoked> {
  const results = new Map<string, Smoked>()
  const onResult = (result: Smoked) => void results.set(result.name, result)
  await runSmoke(names, { entry, hangSeconds, endMs: 200, onResult })
  return (name) => results.get(name)!
}

/** Whether the process runs whose id is in the file. */
function isRunning(file: string): boolean {
  try {
    return !/^State:\s+Z/m.test(
      readFileSync(`/proc/${readFileSync(join(folder, file), 'utf8')}/status`, 'latin1'),
    )
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false
    throw error
  }
}

it('passes what ends with right answers, and names what is skipped and why', async () => {
  const of = await smoke(60, 'ends', 'skipped')
  expect(of('ends')).toMatchObject({ leftOut: [], isSkipped: false, cpuSeconds: 0.25 })
  expect(of('ends').problem).toBeUndefined()
  expect(formatSmoked(of('ends'))).toMatch(/^ok +ends +\d+\.\d s +0\.3 s of CPU$/)
  expect(formatSmoked(of('skipped'))).toMatch(/^skipped +skipped .*\n +C left out: no C/)
})

it('fails what throws, answers wrongly or warns', async () => {
  const of = await smoke(60, 'throws', 'wrong', 'warns')
  expect(of('throws').problem).toContain('lost 3 answers')
  expect(of('wrong').problem).toContain('wrong, one: 3 are wrong')
  expect(of('warns').problem).toContain('MaxListenersExceededWarning')
  expect(formatSmoked(of('wrong'))).toMatch(/^FAILED +wrong/)
})

it('fails what leaves a process running, and ends that', async () => {
  const of = await smoke(60, 'leaves')
  expect(of('leaves').problem).toBe('left running: sleep 60')
  await until(() => !isRunning('left'), 'its end')
})

it('fails what hangs, and ends it with its processes', async () => {
  const of = await smoke(2, 'hangs')
  expect(of('hangs').problem).toContain('did not end within 2 s')
  await until(() => !isRunning('hung'), 'its end')
})
