import { execFileSync } from 'node:child_process'
import { expect, test } from 'vitest'
import { assert, guarded } from '../../../src/base/errors.ts'

function noSpace(): Error {
  return Object.assign(new Error('no space left on device'), { code: 'ENOSPC' })
}

test('an external failure is reported and not rethrown', async () => {
  const faults: unknown[] = []
  const run = guarded(
    (isLate: boolean) => {
      if (!isLate) throw noSpace()
      return Promise.reject(noSpace())
    },
    (fault) => faults.push(fault),
  )
  run(false)
  run(true)
  await Promise.resolve()
  expect(faults).toMatchObject([{ code: 'ENOSPC' }, { code: 'ENOSPC' }])
})

test('a bug is rethrown', () => {
  const reports: unknown[] = []
  const report = (fault: unknown) => reports.push(fault)
  expect(guarded(() => assert(false, 'two is two'), report)).toThrow('two is two')
  // Reason for the cast: a bug of the kind that types do not catch.
  expect(guarded(() => (undefined as unknown as string).length, report)).toThrow(TypeError)
  expect(reports).toEqual([])
})

test('a bug in a promise ends the process', () => {
  const guard = new URL('../../../dist/src/base/errors.js', import.meta.url).href
  const script = `const { guarded } = await import(${JSON.stringify(guard)})
    guarded(async () => { throw new TypeError('x is not a function') }, () => {})()
    setTimeout(() => {}, 5000)`
  const words = ['--input-type=module', '-e', script]
  expect(() => execFileSync(process.execPath, words, { stdio: 'pipe' })).toThrow(/not a function/)
})
