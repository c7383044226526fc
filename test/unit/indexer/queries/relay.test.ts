// A relayed query never ends as a result that looks complete, and never waits for a lost program.
import type { Socket } from 'node:net'
import { expect, test } from 'vitest'
import { Fault } from '../../../../src/base/errors.ts'
import { noTotals, type QueryAnswer } from '../../../../src/indexer/queries/protocol.ts'
import type { ResultSocket } from '../../../../src/indexer/queries/service.ts'
import { QueryRelay, ResultBytes } from '../../../../src/indexer/queries/service.ts'

const complete: QueryAnswer = {
  ...{ queryId: 'q', error: null, reply: null, tail: null, sent: 4, totals: noTotals },
  ...{ isKilled: false, isRefused: false, isCompressed: false },
}

/** A query whose bytes and answer the test decides. */
function stage() {
  const calls: string[] = []
  const pace: boolean[] = []
  const source = { pause: () => pace.push(true), resume: () => pace.push(false) }
  const bytes = new ResultBytes(() => {})
  let answer: (answered: QueryAnswer) => void = () => {}
  let refusesPermit = false
  const program = {
    call<T>(call: string): Promise<T> {
      calls.push(call)
      return new Promise<T>((resolve) => {
        answer = resolve as (answered: QueryAnswer) => void
      })
    },
    steer<T>(call: string): Promise<T> {
      calls.push(call)
      if (call === 'permit' && refusesPermit)
        return Promise.reject(new Fault('child-gone', 'it ended'))
      // Reason for the cast: each call of the relay has its own answer.
      return Promise.resolve(noTotals as T)
    },
  }
  // Reason for the cast: this has everything that the relay uses of it.
  const results = { expect: () => ({ ticket: '', bytes }), forget: () => calls.push('forget') }
  const relay = new QueryRelay(program, results as unknown as ResultSocket)
  relay.opened({ engine: '', tables: [] })
  const query = relay.run({ queryId: 'q' } as Parameters<QueryRelay['run']>[0], () => {})
  return {
    ...{ relay, query, bytes, calls, pace },
    take: (text: string) => bytes.take(Buffer.from(text), source as unknown as Socket),
    answer: (answered: QueryAnswer) => answer(answered),
    refusePermit() {
      refusesPermit = true
    },
  }
}

async function textOf(chunks: AsyncIterable<Uint8Array>): Promise<string> {
  const parts: Uint8Array[] = []
  for await (const chunk of chunks) parts.push(chunk)
  return Buffer.concat(parts).toString()
}

test('returns the bytes of a result, whichever of bytes and answer comes first', async () => {
  const { query, take, answer } = stage()
  take('ro')
  expect(await query.started).toBeNull()
  answer(complete)
  await query.answer
  const text = textOf(query.chunks)
  take('w\n')
  expect(await text).toBe('row\n')
  expect(query.failed()).toBeNull()
})

test('is an error when it is cancelled while a complete result is unread', async () => {
  const { query, take, answer } = stage()
  take('row\n')
  answer(complete)
  await query.answer
  query.cancel()
  expect(await textOf(query.chunks)).toBe('')
  expect(query.failed()).toMatchObject({ code: 394 })
})

test('is an error when the connection ends before the last byte', async () => {
  const { query, bytes, take, answer } = stage()
  take('ro')
  bytes.end()
  answer(complete)
  expect(await textOf(query.chunks)).toBe('ro')
  expect(query.failed()).toMatchObject({ code: 210 })
})

test('is an error at once when its permit cannot be sent', async () => {
  const { query, refusePermit } = stage()
  refusePermit()
  query.permit()
  expect(await query.answer).toMatchObject({ error: { code: 301 }, sent: null })
})

test('pauses its process while 256 KiB are unread, and not once the result is complete', async () => {
  const { query, take, answer, pace } = stage()
  take('x'.repeat(256 * 1024))
  expect(pace).toEqual([true])
  answer({ ...complete, sent: 512 * 1024 })
  await query.answer
  take('x'.repeat(256 * 1024))
  expect(pace).toEqual([true, false])
  expect((await textOf(query.chunks)).length).toBe(512 * 1024)
})

test('is cancelled when its reader stops early', async () => {
  const { query, take, calls } = stage()
  take('row\n')
  for await (const _ of query.chunks) break
  expect(calls).toEqual(['query', 'cancel', 'forget'])
})

test('is refused at once while the program starts', async () => {
  const { relay } = stage()
  relay.closed()
  const query = relay.run({ queryId: 'q' } as Parameters<QueryRelay['run']>[0], () => {})
  expect(await query.started).toMatchObject({ error: { code: 301 }, isRefused: true })
})

test.each([
  ['is down', 'child-down', true],
  ['dies amid it', 'child-gone', false],
])('costs nothing where its program %s: %s, %s', async (_, kind, isRefused) => {
  const gone = () => Promise.reject(new Fault(kind, 'it is not running'))
  // Reason for the cast: this has everything that the relay uses of it.
  const expected = { ticket: '', bytes: new ResultBytes(() => {}) }
  const results = { expect: () => expected, forget() {} } as unknown as ResultSocket
  const relay = new QueryRelay({ call: gone, steer: gone }, results)
  relay.opened({ engine: '', tables: [] })
  const query = relay.run({ queryId: 'q' } as Parameters<QueryRelay['run']>[0], () => {})
  expect(await query.answer).toMatchObject({ error: { code: 301 }, isRefused })
})

test('refuses a query beyond those that may be under way: it costs nothing', async () => {
  const busy = () => Promise.reject(new Fault('child-busy', 'too many calls'))
  // Reason for the cast: this has everything that the relay uses of it.
  const expected = { ticket: '', bytes: new ResultBytes(() => {}) }
  const results = { expect: () => expected, forget() {} } as unknown as ResultSocket
  const relay = new QueryRelay({ call: busy, steer: busy }, results)
  relay.opened({ engine: '', tables: [] })
  const query = relay.run({ queryId: 'q' } as Parameters<QueryRelay['run']>[0], () => {})
  expect(await query.answer).toMatchObject({ error: { code: 202 }, isRefused: true })
})
