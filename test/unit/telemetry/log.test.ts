import { spawnSync } from 'node:child_process'
import { closeSync, openSync } from 'node:fs'
import { expect, test } from 'vitest'
import { faultReport, type Log, silentLog } from '../../../src/telemetry/log.ts'

test('a log file on a full disk does not end the process', () => {
  const url = new URL('../../../dist/src/telemetry/log.js', import.meta.url).href
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

test('a recurring fault is logged at most once a second', () => {
  const lines: unknown[] = []
  const log: Log = { ...silentLog, error: (msg, fields) => lines.push([msg, fields]) }
  const report = faultReport(log, 'writing failed')
  report(new Error('no space'))
  report('no space')
  expect(lines).toEqual([['writing failed', { reason: 'no space' }]])
})
