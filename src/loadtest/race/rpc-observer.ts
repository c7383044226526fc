// Observes the slot of an RPC endpoint by polling getSlot. Thread: observer.
// A slot is seen at the first answer that names it, so it comes up to one poll late.
import { type ClientRequest, Agent as HttpAgent, request as httpRequest } from 'node:http'
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https'
import { sharedNowMs } from '../thread-clock.ts'
import type { Endpoint, Observer, ObserverEvents, Subject } from './observer.ts'

const answerBytesMax = 64 * 1024
const answerMsMax = 3_000

export function observeRpc(
  { url, token }: Endpoint,
  { commitment, pollMs }: Subject,
  events: ObserverEvents,
): Observer {
  const isTls = url.startsWith('https:')
  const agent = new (isTls ? HttpsAgent : HttpAgent)({ keepAlive: true, maxSockets: 1 })
  const params = [{ commitment }]
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'getSlot', params })
  const options = {
    method: 'POST',
    agent,
    timeout: answerMsMax,
    headers: {
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(body),
      ...(token === null ? {} : { 'x-token': token }),
    },
  }
  let isOver = false
  let isLive = false
  let newest = -1
  let timer: NodeJS.Timeout | undefined
  let current: ClientRequest | null = null
  const end = (problem: string) => {
    if (isOver) return
    isOver = true
    clearTimeout(timer)
    current?.destroy()
    agent.destroy()
    events.down(problem)
  }
  const poll = () => {
    const sentMs = sharedNowMs()
    current = (isTls ? httpsRequest : httpRequest)(url, options, (answer) => {
      // The head of the answer was parsed from the bytes that just arrived.
      const atMs = sharedNowMs()
      let text = ''
      answer.setEncoding('utf8')
      answer.on('data', (part: string) => {
        text += part
        if (text.length > answerBytesMax) end('sent an answer that is too long')
      })
      answer.on('end', () => {
        if (isOver) return
        const slot = slotIn(answer.statusCode ?? 0, text)
        if (typeof slot === 'string') return end(slot)
        if (!isLive) events.live()
        isLive = true
        events.roundTrip(atMs - sentMs)
        if (slot > newest) events.saw(String(slot), slot, atMs)
        newest = Math.max(newest, slot)
        timer = setTimeout(poll, Math.max(0, sentMs + pollMs - sharedNowMs()))
      })
    })
    current.on('timeout', () => end(`did not answer within ${answerMsMax / 1000} s`))
    current.on('error', (error: NodeJS.ErrnoException) =>
      end(`cannot be reached (${error.code ?? error.message})`),
    )
    current.end(body)
  }
  poll()
  return {
    close() {
      events.down = () => {}
      end('')
    },
  }
}

/** The slot of an answer, or what is wrong with it. */
function slotIn(status: number, text: string): number | string {
  if (status === 401 || status === 403) return `refused the token (HTTP status ${status})`
  if (status !== 200) return `answered with HTTP status ${status}`
  try {
    const { result, error } = JSON.parse(text) as {
      readonly result?: unknown
      readonly error?: { readonly message?: string }
    }
    if (typeof result === 'number') return result
    return `refused getSlot: ${error?.message ?? 'the answer has no slot'}`
  } catch {
    return 'sent an answer that is not JSON'
  }
}
