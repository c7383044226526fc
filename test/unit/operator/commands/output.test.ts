import { afterEach, describe, expect, test, vi } from 'vitest'
import {
  printRefusal,
  printReport,
  recordOf,
  safeText,
  tableOf,
} from '../../../../src/operator/commands/output.ts'

function capture() {
  const written = { out: '', err: '' }
  const streams = {
    stdout: {
      write(text: string) {
        written.out += text
      },
    },
    stderr: {
      write(text: string) {
        written.err += text
      },
    },
  }
  return { written, streams }
}

afterEach(() => {
  vi.unstubAllGlobals()
})

describe('output', () => {
  test('columns are aligned with their heads, empty cells are dashes', () => {
    const rows = [
      ['1', 'long one'],
      ['22', ''],
    ]
    expect(tableOf(['id', 'label'], rows, 'none')).toBe('ID  LABEL\n1   long one\n22  -')
    expect(tableOf(['id'], [], 'No rows.')).toBe('No rows.')
    const record = recordOf([
      ['a', '1'],
      ['long', '2'],
    ])
    expect(record).toBe('a:     1\nlong:  2')
  })

  test('a table fits the terminal: long texts are wrapped, no word is broken', () => {
    const rows = [
      ['a-word-that-is-whole', 'open', 'one two three four five six'],
      ['short', 'down', 'seven'],
    ]
    vi.stubGlobal('process', Object.create(process, { stdout: { value: { columns: 46 } } }))
    expect(tableOf(['name', 'state', 'text'], rows, '').split('\n')).toEqual([
      'NAME                  STATE  TEXT',
      'a-word-that-is-whole  open   one two three',
      '                             four five six',
      'short                 down   seven',
    ])
    vi.stubGlobal('process', Object.create(process, { stdout: { value: { columns: 0 } } }))
    expect(tableOf(['name', 'state', 'text'], rows, '').split('\n')).toHaveLength(3)
  })

  test('states have a colour on a terminal that has colours', () => {
    const stdout = { value: { columns: 80, hasColors: () => true } }
    vi.stubGlobal('process', Object.create(process, { stdout }))
    const text = tableOf(['state', 'x'], [['down: no node', 'down']], '')
    expect(text).toBe('STATE          X\n\u001b[31mdown: no node\u001b[0m  down')
  })

  test('stored text cannot steer the terminal', () => {
    expect(safeText('a\u001b[31mb\u0007\u202ec\u009b')).toBe('a?[31mb??c?')
    expect(tableOf(['x'], [['two\nlines']], '')).toBe('X\ntwo lines')
  })

  test('answers go to stdout, refusals to stderr, in the requested form', () => {
    const { written, streams } = capture()
    printReport({ json: { a: 1 }, text: 'one' }, 'json', streams)
    printReport({ json: { a: 1 }, text: 'one' }, 'table', streams)
    expect(written).toEqual({ out: '{"a":1}\none\n', err: '' })
    printRefusal({ code: 'c', message: 'm' }, 'table', 'hint', streams)
    printRefusal({ code: 'c', message: 'm' }, 'json', 'hint', streams)
    expect(written.err).toBe('sluice: m\nhint\n{"error":{"code":"c","message":"m"}}\n')
  })

  test('a token passed as the wrong argument is not echoed', () => {
    const { written, streams } = capture()
    const token = `slu_${'a'.repeat(38)}`
    printRefusal({ code: 'c', message: `no subscription "${token}"` }, 'table', undefined, streams)
    printRefusal({ code: 'c', message: `no subscription "${token}"` }, 'json', undefined, streams)
    expect(written.err).not.toContain('aaa')
  })
})
