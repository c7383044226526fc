import { expect, test } from 'vitest'
import { logText } from '../../../../src/base/telemetry/open-log.ts'

const line = (fields: object) =>
  `${JSON.stringify({ level: 'warn', time: '2026-11-15T20:15:03.123Z', area: 'upstream', ...fields })}\n`

test('a log line is readable on a terminal: time, level, area, message, fields', () => {
  const text = logText(line({ node: 'default/1', reason: 'no answer', msg: 'node left' }), false)
  expect(text).toBe('20:15:03.123 warn  upstream  node left  node=default/1 reason="no answer"\n')
  expect(logText(line({ msg: 'alone' }), false)).toBe('20:15:03.123 warn  upstream  alone\n')
})

test('only warnings and errors stand out, and only where colours are wanted', () => {
  const text = logText(line({ msg: 'm' }), true)
  expect([text.startsWith('\u001b[33m'), text.endsWith('\u001b[0m\n')]).toEqual([true, true])
  expect(logText(line({ level: 'info', msg: 'm' }), true)).not.toContain('\u001b')
})

test('values cannot steer the terminal, and the lines of a stack stay lines', () => {
  const text = logText(line({ reason: 'a\u001b[2J\u009b1\nat b', msg: 'm\u0007' }), false)
  expect(text).toBe('20:15:03.123 warn  upstream  m?  reason=a?[2J?1\n    at b\n')
})

test('what is not a JSON object is written as it is', () => {
  expect(logText('plain\n', true)).toBe('plain\n')
})
