// Streamed answers that nobody reads: the query behind them is stopped and released.
import { describe, expect, test } from 'vitest'
import { codingOf, encoded, Reply, ResponseHead } from '../../../../src/base/transport/reply.ts'
import {
  type AnswerShape,
  answerWith,
  type Result,
} from '../../../../src/products/indexer/handle.ts'
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
  const result: Result = { chunks: chunks(), failed: () => null }
  const head = ResponseHead.of({ 'content-type': 'text/plain' })
  const shape = (): AnswerShape => ({
    isWhole: false,
    head: async () => head,
    failed: () => new Reply(500, head),
    tag: '',
    tail: () => Buffer.alloc(0),
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
