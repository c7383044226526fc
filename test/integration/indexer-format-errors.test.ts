// Exceptions inside the output format, which a client asks for by a setting.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { IndexerStage } from '../testkit/indexer-stage.ts'

const stage = new IndexerStage()

beforeAll(() => stage.open())
afterAll(() => stage.bundle.dispose())

describe('an error inside the format', () => {
  const query = { http_write_exception_in_output_format: '1' }
  const sentence = 'Code: 60. DB::Exception: As asked: 60. (UNKNOWN_TABLE)'

  it('is a document, a row or an array of the JSON formats, with the status of its code', async () => {
    for (const [format, expected] of [
      ['JSON', { meta: [], data: [], rows: 0, exception: sentence }],
      ['JSONCompactStrings', { meta: [], data: [], rows: 0, exception: sentence }],
      ['JSONObjectEachRow', { exception: sentence }],
      ['JSONEachRow', { exception: sentence }],
      ['JSONEachRowWithProgress', { exception: sentence }],
      ['JSONCompactEachRow', [sentence]],
    ] as const) {
      const answer = await stage.ask({ body: `SELECT fail 60 FORMAT ${format}`, query })
      expect(answer.status).toBe(400)
      expect(answer.headers.get('x-clickhouse-exception-code')).toBe('60')
      expect(answer.headers.get('x-clickhouse-format')).toBe(format)
      expect(JSON.parse(answer.text)).toEqual(expected)
    }
    for (const format of ['CSV', 'JSONColumns'])
      expect((await stage.ask({ body: `SELECT fail 60 FORMAT ${format}`, query })).text).toBe(
        `${sentence}\n`,
      )
    const unasked = await stage.ask({ body: 'SELECT fail 60 FORMAT JSONEachRow' })
    expect(unasked.text).toBe(`${sentence}\n`)
  })

  it('is the last row after others, and a block where the format has no such row', async () => {
    const asked = { body: 'SELECT late 100000', query: { ...query, default_format: 'JSONEachRow' } }
    const { status, text } = await stage.ask(asked)
    expect(status).toBe(200)
    const lines = text.trimEnd().split('\n')
    expect(lines.length).toBe(100_001)
    expect(JSON.parse(lines.at(-1)!)).toEqual({
      exception: 'Code: 159. DB::Exception: Too slow. (TIMEOUT_EXCEEDED)',
    })
    const tabs = await stage.ask({ body: 'SELECT late 100000', query })
    expect(tabs.text).toContain('\r\n__exception__\r\n')
  })
})
