// A client that writes whatever bytes a test wants, well-formed or not, and reads what comes back.
import { connect } from 'node:net'
import { hangMs } from './until.ts'

export interface RawAnswer {
  readonly text: string
  readonly status: number
  readonly body: string
  readonly isClosed: boolean
  readonly tookMs: number
}

export interface RawOptions {
  /** Stop once this many whole answers have arrived; a close always stops. */
  readonly answers?: number
  readonly deadlineMs?: number
  /** Sent after the first chunk, one by one, with this pause between them. */
  readonly later?: { readonly parts: readonly (string | Buffer)[]; readonly everyMs: number }
}

/** Sends bytes and gives back everything received until enough answers came, a close, or the deadline. */
export function sendRaw(
  port: number,
  bytes: string | Buffer,
  options: RawOptions = {},
): Promise<RawAnswer> {
  const beganMs = performance.now()
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1')
    const timers: NodeJS.Timeout[] = []
    let text = ''
    const finish = (isClosed: boolean) => {
      for (const timer of timers) clearTimeout(timer)
      socket.destroy()
      const body = text.slice(text.indexOf('\r\n\r\n') + 4)
      const status = Number(text.match(/^HTTP\/1\.1 (\d{3})/)?.[1] ?? 0)
      resolve({ text, status, body, isClosed, tookMs: performance.now() - beganMs })
    }
    socket.on('error', () => finish(true))
    socket.on('close', () => finish(true))
    socket.on('data', (data) => {
      text += data.toString('latin1')
      if (countAnswers(text) >= (options.answers ?? 1)) finish(false)
    })
    socket.write(bytes)
    options.later?.parts.forEach((part, index) => {
      timers.push(setTimeout(() => socket.write(part), (index + 1) * options.later!.everyMs))
    })
    timers.push(setTimeout(() => finish(false), options.deadlineMs ?? hangMs))
  })
}

/** Whole answers with a Content-Length, or a chunked one that has ended. */
function countAnswers(text: string): number {
  let at = 0
  let count = 0
  for (;;) {
    const end = text.indexOf('\r\n\r\n', at)
    if (end < 0) return count
    const head = text.slice(at, end)
    const length = head.match(/content-length: (\d+)/i)?.[1]
    if (length === undefined) {
      const last = text.indexOf('\r\n0\r\n\r\n', end)
      if (!/transfer-encoding: chunked/i.test(head)) at = end + 4
      else if (last < 0) return count
      else at = last + 7
    } else {
      at = end + 4 + Number(length)
      if (at > text.length) return count
    }
    count++
  }
}
