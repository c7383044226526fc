// Sends answers that are too long for one write, at the reader's pace. Thread: main.
// Called by exchange.ts. The native server cuts a reader that takes nothing for 12 s, so while the
// way is blocked the connection is touched every 4 s, up to a bound of our own.
import type { Pieces } from './reply.ts'
import type { NativeResponse } from './uws.ts'

const BLOCKED_TOUCH_MS = 4_000
const BLOCKED_MS_MAX = 60_000

/** The exchange that is being answered. */
export interface Way {
  readonly isLast: boolean
  /** False once the client left or the answer ended. */
  isOpen(): boolean
  /** The answer is through; called once by whoever ends it. */
  done(): void
}

/** A body whose length is known. */
export function sendLarge(response: NativeResponse, body: string | Uint8Array, way: Way): void {
  const bytes = typeof body === 'string' ? Buffer.from(body) : body
  const watch = watchBlocked(response, way)
  // Bytes of the head that went before; offsets of the native server count from the body's start.
  const push = (from: number): boolean => {
    const [isWritten, hasEnded] = response.tryEnd(bytes.subarray(from), bytes.length)
    if (hasEnded) {
      watch.end()
      way.done()
    }
    return isWritten
  }
  response.onWritable((offset) => {
    watch.progress()
    return way.isOpen() ? push(offset) : true
  })
  push(0)
  if (!way.isOpen()) watch.end()
}

/** A body in pieces; nothing is copied here, whatever the reader's pace. */
export function sendPieces(response: NativeResponse, body: Pieces, way: Way): void {
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
        way.done()
        release?.()
        return true
      }
      if (!isWritten) return false
    }
    return true
  }
  if (push(0)) return
  watch = watchBlocked(response, way)
  response.onWritable((offset) => {
    watch?.progress()
    return way.isOpen() ? push(offset) : true
  })
}

/** A body that is made while it is sent; a source that throws cuts the connection. */
export async function sendStream(
  response: NativeResponse,
  chunks: AsyncIterable<Uint8Array>,
  way: Way,
): Promise<void> {
  const watch = watchBlocked(response, way)
  watch.flow()
  let unblock: (() => void) | null = null
  response.onWritable(() => {
    if (unblock !== null) watch.progress()
    unblock?.()
    return true
  })
  try {
    for await (const chunk of chunks) {
      if (!way.isOpen()) return
      if (chunk.length === 0) continue
      let isWritten = true
      response.cork(() => {
        isWritten = response.write(chunk)
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
    if (!way.isOpen()) return
    response.cork(() => response.end(undefined, way.isLast))
    way.done()
  } catch {
    // The status is long gone: a cut connection is the only way left to say that it failed.
    if (way.isOpen()) response.close()
  } finally {
    watch.end()
  }
}

interface Watch {
  block(): void
  /** The reader has taken everything: a source that rests is no blocked reader. */
  flow(): void
  progress(): void
  end(): void
  onGone: (() => void) | null
}

/** Touches a connection that waits, and closes it when its reader took nothing for a minute. */
function watchBlocked(response: NativeResponse, way: Way): Watch {
  let blockedSinceMs: number | null = performance.now()
  const timer = setInterval(() => {
    if (!way.isOpen()) return watch.end()
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
    progress() {
      blockedSinceMs = performance.now()
    },
    end() {
      clearInterval(timer)
      watch.onGone?.()
    },
  }
  return watch
}
