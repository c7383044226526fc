import { expect, test } from 'vitest'
import { Readiness } from '../../../src/base/readiness.ts'

test('a gateway is ready between its start and its stop, while every check is ok', () => {
  const readiness = new Readiness()
  const started = { name: 'components', ok: true }
  const notStarted = { ready: false, checks: [{ name: 'components', ok: false }] }
  expect(readiness.report()).toEqual(notStarted)
  const events = { name: 'events', ok: true, age_ms: 5 }
  readiness.begin([() => events])
  expect(readiness.report()).toEqual({ ready: true, checks: [started, events] })
  events.ok = false
  expect(readiness.report()).toEqual({ ready: false, checks: [started, events] })
  events.ok = true
  readiness.end()
  expect(readiness.report()).toEqual(notStarted)
})
