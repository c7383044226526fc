import { spawnSync } from 'node:child_process'
import { closeSync, mkdtempSync, openSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import { faultReport, type Log, silentLog } from '../../../../src/base/telemetry/log.ts'

test('a log file on a full disk does not end the process', () => {
  const url = new URL('../../../../dist/src/base/telemetry/open-log.js', import.meta.url).href
  const script = `const { openLog } = await import(${JSON.stringify(url)})
    const log = openLog('info')
    for (let line = 0; line < 3; line++) log.info('a line')
    setTimeout(() => { log.info('a line'); console.log('alive') }, 10)`
  const full = openSync('/dev/full', 'w')
  const words = ['--input-type=module', '-e', script]
  const ran = spawnSync(process.execPath, words, { stdio: ['ignore', 'pipe', full] })
  closeSync(full)
  expect([ran.status, String(ran.stdout)]).toEqual([0, 'alive\n'])
})

test('lines are JSON in a pipe, and text with colours on a terminal unless NO_COLOR is set', (context) => {
  if (spawnSync('script', ['--version']).error !== undefined)
    return context.skip('script(1) is not here')
  const url = new URL('../../../../dist/src/base/telemetry/open-log.js', import.meta.url).href
  const file = join(mkdtempSync(join(tmpdir(), 'sluice-log-')), 'log.mjs')
  writeFileSync(file, `import { openLog } from '${url}'\nopenLog('info').warn('a line', { n: 1 })`)
  const env = { PATH: process.env.PATH, TERM: 'xterm-256color' }
  const piped = spawnSync(process.execPath, [file], { env, encoding: 'utf8' })
  expect(JSON.parse(piped.stderr)).toMatchObject({ level: 'warn', msg: 'a line', n: 1 })
  const shown = (more: object) =>
    spawnSync('script', ['-qec', `${process.execPath} ${file}`, '/dev/null'], {
      env: { ...env, ...more },
      encoding: 'utf8',
    }).stdout
  expect(shown({ NO_COLOR: '1' })).toMatch(/^[\d:.]+ warn {2}sluice {2}a line {2}n=1\r\n$/)
  expect(shown({})).toContain('\u001b[33m')
  rmSync(dirname(file), { recursive: true })
})

test('a recurring fault is logged at most once a second', () => {
  const lines: unknown[] = []
  const log: Log = { ...silentLog, error: (msg, fields) => lines.push([msg, fields]) }
  const report = faultReport(log, 'writing failed')
  report(new Error('no space'))
  report('no space')
  expect(lines).toEqual([['writing failed', { reason: 'no space' }]])
})
