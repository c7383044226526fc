// Sends responses that are too long for one write, with backpressure from the reader.
// The native server closes a connection whose reader reads nothing for 12 s, so while the reader
// blocks, the connection is touched every 4 s, up to a timeout of our own.
import type { Pieces } from './reply.ts'
import type { NativeResponse } from './uws.ts'

const BLOCKED_TOUCH_MS = 4_000
const BLOCKED_MS_MAX = 60_000

/**
 * Most bytes of one native write or end. Its cork buffer has 16 KiB: of a write that does not fit,
 * the native server first sends what is corked, and drops the write when the kernel takes none of
 * that (uWebSockets.js issue 1249). So each write fits, beside a head or the frame of a chunk.
 */
export const CORKED_BYTES_MAX = 12_288

/** The exchange that is being answered. */
export interface OpenExchange {
  readonly isLast: boolean
  /** False once the client disconnected or the response ended. */
  isOpen(): boolean
  /** The response is sent; called once. */
  done(): void
}

/** A body in pieces; nothing is copied here, however slow the reader is. */
export function sendPieces(response: NativeResponse, body: Pieces, exchange: OpenExchange): void {
  const { pieces, length, release } = body
  let watch: Watch | null = null
  const push = (from: number): boolean => {
    let end = 0
    for (const piece of pieces) {
      const start = end
      end += piece.length
      if (end <= from) continue
      const rest = from > start ? piece.subarray(from - start) : piece
      const [isWritten, hasEnded] = response.tryEnd(rest, length)
      if (hasEnded) {
        watch?.end()
        exchange.done()
        release?.()
        return true
      }
      if (!isWritten) return false
    }
    return true
  }
  if (push(0)) return
  watch = watchBlocked(response, exchange)
  response.onWritable((offset) => {
    watch?.block()
    return exchange.isOpen() ? push(offset) : true
  })
}

/** A body that is produced while it is sent; a source that throws closes the connection. */
export async function sendStream(
  response: NativeResponse,
  chunks: AsyncIterable<Uint8Array>,
  exchange: OpenExchange,
): Promise<void> {
  const watch = watchBlocked(response, exchange)
  watch.flow()
  let unblock: (() => void) | null = null
  response.onWritable(() => {
    if (unblock !== null) watch.block()
    unblock?.()
    return true
  })
  try {
    for await (const chunk of chunks)
      for (let at = 0; at < chunk.length; at += CORKED_BYTES_MAX) {
        if (!exchange.isOpen()) return
        let isWritten = true
        response.cork(() => {
          isWritten = response.write(chunk.subarray(at, at + CORKED_BYTES_MAX))
        })
        if (isWritten) continue
        watch.block()
        await new Promise<void>((resolve) => {
          unblock = resolve
          watch.onGone = resolve
        })
        unblock = null
        watch.flow()
      }
    if (!exchange.isOpen()) return
    response.cork(() => response.end(undefined, exchange.isLast))
    exchange.done()
  } catch {
    // The status was sent already: only closing the connection can signal the failure.
    if (exchange.isOpen()) response.close()
  } finally {
    watch.end()
  }
}

interface Watch {
  /** The reader blocks, or has read some of it: its timeout starts now. */
  block(): void
  /** The reader has read everything: an idle source does not count as a blocked reader. */
  flow(): void
  end(): void
  onGone: (() => void) | null
}

/** Touches a blocked connection, and closes it when its reader read nothing for a minute. */
function watchBlocked(response: NativeResponse, exchange: OpenExchange): Watch {
  let blockedSinceMs: number | null = performance.now()
  const timer = setInterval(() => {
    if (!exchange.isOpen()) return watch.end()
    const isStuck = blockedSinceMs !== null && performance.now() - blockedSinceMs > BLOCKED_MS_MAX
    if (isStuck) return void response.close()
    response.pause()
    response.resume()
  }, BLOCKED_TOUCH_MS)
  const watch: Watch = {
    onGone: null,
    block() {
      blockedSinceMs = performance.now()
    },
    flow() {
      blockedSinceMs = null
    },
    end() {
      clearInterval(timer)
      watch.onGone?.()
    },
  }
  return watch
}
