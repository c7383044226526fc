// Exceptions of a ClickHouse server: parsed in all forms, reported without internals.
import { describe, expect, test } from 'vitest'
import {
  readException,
  trailingException,
} from '../../../../../src/indexer/clickhouse/server/server-exception.ts'

describe('exceptions of a ClickHouse server', () => {
  test('are parsed in the forms of old and new servers', () => {
    expect(
      readException(
        'Code: 46, e.displayText() = DB::Exception: Unknown function foo, e.what() = DB::Exception\n',
      ),
    ).toEqual({ code: 46, name: 'UNKNOWN_FUNCTION', message: 'Unknown function foo' })
    expect(
      readException(
        'Code: 62. DB::Exception: Syntax error (line 1): near `x`. (SYNTAX_ERROR) (version 25.8.1.1 (official build))\n',
      ),
    ).toEqual({ code: 62, name: 'SYNTAX_ERROR', message: 'Syntax error (line 1): near `x`.' })
    expect(readException('Bad gateway', 502)).toMatchObject({ code: 1002 })
  })

  test.each([
    [
      'DB::ErrnoException',
      75,
      'Cannot write to file /var/lib/x.bin, errno: 28, strerror: No space',
    ],
    ['Coordination::Exception', 999, 'Connection loss, path: /clickhouse/tables/01'],
  ])('are parsed as %s, also after rows', (kind, code, sentence) => {
    const old = `Code: ${code}, e.displayText() = ${kind}: ${sentence}, e.what() = ${kind}\n`
    const now = `Code: ${code}. ${kind}: ${sentence}. (SOME_NAME) (version 25.8.1.1)\n`
    for (const text of [old, now]) {
      const read = readException(text)
      expect(read.code).toBe(code)
      expect(read.message).toContain(sentence.slice(0, 10))
      expect(read.message).not.toMatch(/what|\/var|\/clickhouse/)
      const found = trailingException(Buffer.from(`1\t2\n${text}`), 'text', null)
      expect(found).toEqual({ exception: read, at: 4 })
    }
  })

  test('report too many rows as TOO_MANY_ROWS', () => {
    const text =
      'Code: 396, e.displayText() = DB::Exception: Limit for result exceeded, max rows: 100.00, current rows: 131.07 thousand, e.what() = DB::Exception'
    expect(readException(text)).toMatchObject({ code: 158, name: 'TOO_MANY_ROWS' })
    expect(readException(text.replaceAll('rows', 'bytes'))).toMatchObject({ code: 396 })
  })

  test('reveal no stored table, host, address, path or id of the server', () => {
    const { message } = readException(
      'Code: 210. DB::NetException: Connection refused (10.1.2.3:9000, localhost:9000), while reading /var/lib/clickhouse/data/chain/x.bin of chain._transactions, query sluice-ab12-7. (NETWORK_ERROR)',
    )
    expect(message).not.toMatch(/10\.1\.2\.3|localhost|\/var|_transactions|ab12/)
    expect(message).toContain('transactions')
  })

  test('are found after rows, and not inside them', () => {
    const old =
      'Code: 159, e.displayText() = DB::Exception: Timeout exceeded, e.what() = DB::Exception\n'
    const seen = (text: string, kind: 'json' | 'text', tag: string | null = null) =>
      trailingException(Buffer.from(text), kind, tag)
    expect(seen(`{"a":1}\n${old}`, 'json')).toMatchObject({ exception: { code: 159 }, at: 8 })
    expect(seen(`{"data":[{"a":1}${old}`, 'json')).toMatchObject({
      exception: { code: 159 },
      at: 16,
    })
    expect(seen(`1\té\n${old}`, 'text')).toMatchObject({ exception: { code: 159 }, at: 5 })
    expect(seen(old, 'text')).toMatchObject({ at: 0 })
    expect(seen('{"a":"Code: 159. DB::Exception: x. (Y)"}\n', 'json')).toBeNull()
    expect(seen('1\ta Code: 159. DB::Exception: x. (Y)\n', 'text')).toBeNull()
    expect(seen('1\t2\n', 'text')).toBeNull()
    const tagged =
      '1\t2\n\r\n__exception__\r\nabc\nCode: 241. DB::Exception: Memory. (MEMORY_LIMIT_EXCEEDED)\n62 abc\r\n__exception__\r\n'
    expect(seen(tagged, 'text', 'abc')).toEqual({
      exception: { code: 241, name: 'MEMORY_LIMIT_EXCEEDED', message: 'Memory.' },
      at: 4,
    })
  })
})
