// The shapes of the indexer endpoint's own answers, fixed by golden files: inside v1 fields are
// only added.
import { afterAll, beforeAll, describe, it } from 'vitest'
import { expectShape } from '../testkit/golden.ts'
import { type Asked, IndexerStage, planLimits } from '../testkit/indexer-stage.ts'

const stage = new IndexerStage({
  poor: { creditsPerSecond: 1, burst: 1 },
  narrow: { indexer: { ...planLimits, queries: 1, queued: 0 } },
})

beforeAll(() => stage.open())
afterAll(() => stage.bundle.dispose())

/** Status, the headers that clients read, and the body taken apart. */
async function answerTo(asked: Asked) {
  const { status, headers, text } = await stage.ask(asked)
  const kept = [...headers].filter(([name]) => /^(x-|content-type|www-auth|retry)/.test(name))
  const found = /^Code: (\d+)\. DB::Exception: (.+)\. \(([A-Z_]+)\)\n$/s.exec(text)
  const [, code, message, name] = found ?? []
  return {
    status,
    headers: Object.fromEntries(kept),
    ...(found === null ? {} : { exception: { code, message, name } }),
  }
}

describe('golden shapes of the indexer', () => {
  it('keeps the errors', async () => {
    const errors: Readonly<Record<string, Asked>> = {
      unauthorized: { body: 'SELECT 1', as: {} },
      syntax: { body: 'SELEC 1' },
      readonly: { body: 'DROP TABLE x' },
      timeout: { body: 'SELECT fail 159' },
      'unknown-setting': { body: 'SELECT 1', query: { allow_ddl: '1' } },
      'unknown-path': { body: '', path: '/x' },
      'too-long': { body: 'x'.repeat(1_100_000) },
    }
    for (const [name, asked] of Object.entries(errors))
      expectShape(`indexer/${name}`, await answerTo(asked))
    const as = stage.issue({ plan: 'poor' })
    await stage.ask({ body: 'SELECT 1', as })
    expectShape('indexer/quota', await answerTo({ body: 'SELECT 1', as }))
  })

  it('keeps the head of a result', async () => {
    expectShape('indexer/result', await answerTo({ body: 'SELECT 1 FORMAT JSON' }))
    const { headers } = await stage.ask({ body: 'SELECT 1' })
    expectShape('indexer/summary', JSON.parse(headers.get('x-clickhouse-summary') ?? ''))
  })

  it('keeps what the endpoint answers itself', async () => {
    const json = async (body: string) =>
      JSON.parse((await stage.ask({ body: `${body} FORMAT JSON` })).text)
    expectShape('indexer/show-tables', await json('SHOW TABLES'))
    expectShape('indexer/describe', await json('DESCRIBE TABLE blocks'))
    expectShape('indexer/kill', await json("KILL QUERY WHERE query_id = 'none'"))
  })
})
