// Idle sources and readers that do not read: only the second have their connection closed.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { sendStream } from '../../../../src/base/transport/exchange.ts'
import type { NativeResponse } from '../../../../src/base/transport/uws.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

/** A response whose reader takes everything, or nothing. */
function response(takes: boolean) {
  const calls = { written: 0, touched: 0, isClosed: false, isEnded: false }
  const native = {
    onWritable: () => native,
    cork: (write: () => void) => write(),
    write: () => {
      calls.written++
      return takes
    },
    end: () => {
      calls.isEnded = true
    },
    close: () => {
      calls.isClosed = true
    },
    pause: () => {},
    resume: () => void calls.touched++,
  }
  // Reason for the cast: the few calls that a stream makes are all there.
  return { calls, native: native as unknown as NativeResponse }
}

const way = (calls: { isClosed: boolean; isEnded: boolean }) => ({
  isLast: false,
  isOpen: () => !calls.isClosed && !calls.isEnded,
  done: () => {},
})

describe('a streamed response', () => {
  it('may be idle for minutes when its source is', async () => {
    async function* chunks() {
      yield Buffer.from('a')
      await new Promise((resolve) => setTimeout(resolve, 150_000))
      yield Buffer.from('b')
    }
    const { calls, native } = response(true)
    const sent = sendStream(native, chunks(), way(calls))
    await vi.advanceTimersByTimeAsync(151_000)
    await sent
    expect(calls).toMatchObject({ written: 2, isClosed: false, isEnded: true })
    expect(calls.touched).toBeGreaterThan(30)
  })

  it('writes at once what the cork buffer of the native server takes, and loses nothing', async () => {
    const bytes = Buffer.from(Array.from({ length: 400_000 }, (_, at) => at % 251))
    async function* chunks() {
      yield bytes.subarray(0, 300_000)
      yield bytes.subarray(300_000)
    }
    const { calls, native } = response(true)
    const written: Uint8Array[] = []
    const spied: Partial<NativeResponse> = {
      ...native,
      write: (chunk) => {
        written.push(Buffer.from(chunk as Uint8Array))
        return true
      },
    }
    await sendStream(spied as NativeResponse, chunks(), way(calls))
    expect(Buffer.concat(written).equals(bytes)).toBe(true)
    // 16 KiB, with the frame of a chunk.
    expect(Math.max(...written.map(({ length }) => length))).toBeLessThan(16_000)
  })

  it('is closed when its reader reads nothing for a minute', async () => {
    async function* chunks() {
      for (;;) yield Buffer.from('a')
    }
    const { calls, native } = response(false)
    const sent = sendStream(native, chunks(), way(calls))
    await vi.advanceTimersByTimeAsync(59_000)
    expect(calls.isClosed).toBe(false)
    await vi.advanceTimersByTimeAsync(10_000)
    await sent
    expect(calls).toMatchObject({ written: 1, isClosed: true, isEnded: false })
  })
})
