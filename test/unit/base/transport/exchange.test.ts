// Answers that come too late for their request: they are released, and nothing is written.
import { describe, expect, test } from 'vitest'
import { Exchange } from '../../../../src/base/transport/exchange.ts'
import { Reply, ResponseHead } from '../../../../src/base/transport/reply.ts'
import type { NativeResponse } from '../../../../src/base/transport/uws.ts'
import { until } from '../../../testkit/until.ts'

const textHead = ResponseHead.of({ 'content-type': 'text/plain; charset=utf-8' })

/** An exchange whose answer may be waited for, or not. */
function exchange(waits: boolean) {
  const seen = { abort: () => {}, written: 0 }
  const native = {
    onAborted: (abort: () => void) => {
      seen.abort = abort
    },
    pause: () => {},
    resume: () => {},
    cork: (write: () => void) => write(),
    writeStatus: () => void seen.written++,
    writeHeader: () => void seen.written++,
    end: () => void seen.written++,
    // Reason for the cast: the calls that these answers make are all there.
  } as unknown as NativeResponse
  const owner = { waits: () => waits, finished: () => {}, failed: () => {} }
  return { seen, made: new Exchange(native, owner) }
}

/** A body that is never begun here; `return` fails as well, which must not end the process. */
function body() {
  const seen = { returned: 0 }
  const chunks: AsyncIterableIterator<Uint8Array> = {
    [Symbol.asyncIterator]: () => chunks,
    next: async () => ({ done: false, value: Buffer.from('x') }),
    return: () => {
      seen.returned++
      return Promise.reject(new Error('the source is gone'))
    },
  }
  return { seen, reply: new Reply(200, textHead, chunks) }
}

describe('an answer that cannot be sent', () => {
  test('is released when its address has too many requests in flight', async () => {
    const { seen, made } = exchange(false)
    const { seen: source, reply } = body()
    made.settle(Promise.resolve(reply))
    await until(() => source.returned === 1, 'its release')
    expect(seen.written).toBe(0)
  })

  test('is released when the client disconnected meanwhile', async () => {
    const { seen, made } = exchange(true)
    const { seen: source, reply } = body()
    made.settle(new Promise((resolve) => setImmediate(() => resolve(reply))))
    seen.abort()
    await until(() => source.returned === 1, 'its release')
    expect(seen.written).toBe(0)
  })
})
