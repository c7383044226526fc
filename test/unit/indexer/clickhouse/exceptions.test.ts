// The texts and statuses of exceptions, as clients read them.
import { parseError } from '@clickhouse/client'
import { describe, expect, it } from 'vitest'
import {
  type codeOf,
  exception,
  exceptionText,
  statusOf,
} from '../../../../src/indexer/clickhouse/exceptions.ts'

describe('exceptions', () => {
  it('are parsed by the ClickHouse client, whatever their message contains', () => {
    for (const message of [
      'Plain',
      'ends. ',
      'with (COUNT) and (SELECT 1)',
      'two\nlines',
      'a (b)',
    ]) {
      const read = parseError(exceptionText(exception('SYNTAX_ERROR', message)))
      expect(read).toMatchObject({ code: '62', type: 'SYNTAX_ERROR' })
      expect(read.message.trim().endsWith('.')).toBe(true)
    }
  })

  it('have the statuses of the contract', () => {
    const status = (name: keyof typeof codeOf) => statusOf(exception(name, ''))
    const asked = [
      'SYNTAX_ERROR',
      'UNKNOWN_TABLE',
      'TOO_MANY_ROWS',
      'MEMORY_LIMIT_EXCEEDED',
    ] as const
    for (const name of [...asked, 'TOO_MANY_ROWS_OR_BYTES', 'TOO_MANY_BYTES'] as const)
      expect([name, status(name)]).toEqual([name, 400])
    expect(status('READONLY')).toBe(403)
    expect(status('TIMEOUT_EXCEEDED')).toBe(408)
    expect(status('QUOTA_EXCEEDED')).toBe(429)
    expect(status('TOO_MANY_SIMULTANEOUS_QUERIES')).toBe(429)
    expect(status('AUTHENTICATION_FAILED')).toBe(401)
    expect(status('NETWORK_ERROR')).toBe(503)
    expect(status('UNKNOWN_EXCEPTION')).toBe(500)
    expect(statusOf({ code: 12_345 })).toBe(400)
  })
})
