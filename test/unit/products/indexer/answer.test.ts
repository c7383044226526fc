// Streamed answers that nobody reads: the query behind them is stopped and released.
import { describe, expect, test } from 'vitest'
import { codingOf, encoded } from '../../../../src/base/transport/content-encoding.ts'
import { Reply, ResponseHead } from '../../../../src/base/transport/reply.ts'
import type { QueryResult } from '../../../../src/indexer/engine.ts'
import { type AnswerShape, answerWith } from '../../../../src/products/indexer/answer.ts'
import { until } from '../../../testkit/until.ts'

/** A result without an end, and what became of it. */
function endless() {
  const seen = { released: 0, isSourceEnded: false }
  async function* chunks(): AsyncGenerator<Uint8Array> {
    try {
      for (;;) {
        yield Buffer.alloc(70_000)
        await new Promise((resolve) => setImmediate(resolve))
      }
    } finally {
      seen.isSourceEnded = true
    }
  }
  const totals = { rows: 0, bytes: 0, elapsedMs: 0 }
  const result: QueryResult = { chunks: chunks(), failed: () => null, totals: () => totals }
  const head = ResponseHead.of({ 'content-type': 'text/plain' })
  const shape = (): AnswerShape => ({
    isWhole: false,
    headOf: () => head,
    failed: () => new Reply(500, head),
    lastRow: () => null,
    isAbandoned: () => false,
    abandon: () => void seen.released++,
    ended: () => void seen.released++,
  })
  return { seen, result, shape }
}

async function iteratorOf(reply: Promise<Reply>): Promise<AsyncIterator<Uint8Array>> {
  const { body } = await reply
  if (typeof body === 'string' || !(Symbol.asyncIterator in body)) throw new Error('no stream')
  return body[Symbol.asyncIterator]()
}

async function sent(reply: Promise<Reply>, coding: string): Promise<Reply> {
  return coding === '' ? reply : encoded(await reply, codingOf(coding)!)
}

describe.each(['', 'gzip', 'zstd'])('a streamed answer, compressed: %s', (coding) => {
  test('releases its query when it is discarded unread', async () => {
    const { seen, result, shape } = endless()
    const chunks = await iteratorOf(sent(answerWith(result, shape()), coding))
    await chunks.return?.()
    await until(() => seen.released > 0 && seen.isSourceEnded, 'the query to be released')
  })

  test('releases its query when its reader stops half-way', async () => {
    const { seen, result, shape } = endless()
    const chunks = await iteratorOf(sent(answerWith(result, shape()), coding))
    expect((await chunks.next()).value?.length).toBeGreaterThan(0)
    await chunks.return?.()
    await until(() => seen.released > 0 && seen.isSourceEnded, 'the query to be released')
  })
})
