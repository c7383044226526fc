import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { type Log, silentLog } from '../../../../src/base/telemetry/log.ts'
import { watchConfig } from '../../../../src/operator/commands/serve.ts'
import { until } from '../../../testkit/until.ts'

const folder = mkdtempSync(join(tmpdir(), 'sluice-config-watch-'))
afterAll(() => rmSync(folder, { recursive: true }))

test('a change that the machine does not let through is reported, and the next one is taken', async () => {
  const file = join(folder, 'sluice.yaml')
  writeFileSync(file, 'logLevel: info\n')
  const reasons: unknown[] = []
  const log: Log = { ...silentLog, error: (_msg, fields) => reasons.push(fields?.reason) }
  const levels: string[] = []
  const unwatch = watchConfig({ file, env: {} }, log, ({ logLevel }) => {
    if (logLevel === 'warn') throw Object.assign(new Error('no descriptors'), { code: 'EMFILE' })
    levels.push(logLevel)
  })
  try {
    await until(() => {
      writeFileSync(file, 'logLevel: warn\n')
      return reasons.length > 0
    }, 'the report')
    await until(() => {
      writeFileSync(file, 'logLevel: error\n')
      // Between its two steps a write leaves an empty file, which is a configuration, too.
      return levels.includes('error')
    }, 'the next change')
    expect(reasons[0]).toBe('no descriptors')
  } finally {
    unwatch()
  }
})
