// Observes a WebSocket: PubSub subscriptions, or the stream of the metrics service.
// Thread: observer. All messages of one chunk get the time when the chunk left the socket; JSON is
// parsed after everything that is readable was stamped.
import { type ClientRequest, Agent as HttpAgent, request as httpRequest } from 'node:http'
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https'
import { messageOf } from '../../base/errors.ts'
import { UdpSocket } from '../../base/transport/udp.ts'
import { decodeBase58, decodeKey } from '../../chain/solana/base58.ts'
import { flawOf, flaws, slotOf } from '../../chain/solana/shred.ts'
import { isChallenge } from '../../chain/solana/shred-signature.ts'
import type { Payloads } from '../../client/frames.ts'
import { NodeSocket } from '../../client/node-socket.ts'
import { sharedNowMs } from '../thread-clock.ts'
import type { Endpoint, Observer, ObserverEvents, Subject } from './observer.ts'
import { pingEveryMs, signatureKey, writeKey } from './observer.ts'
import { ShredTransactions } from './shred-transactions.ts'

const signatureBytes = 64
const streamPath = '/v1/ws'
const probeMsMax = 5_000
/** A close code of the protocol for a normal end; others come with a reason worth showing. */
const closedWithoutCode = 1006

export function observePubsub(
  endpoint: Endpoint,
  subject: Subject,
  events: ObserverEvents,
): Observer {
  const requests = pubsubRequests(subject)
  const accountOf = new Map<number, string>()
  let confirmed = 0
  return observeSocket(endpoint, events, {
    opened(socket) {
      for (const request of requests) socket.send(JSON.stringify(request))
    },
    take(message, atMs) {
      const { id, result, error, params } = message as PubsubMessage
      if (typeof id === 'number') {
        if (error !== undefined) return `refused ${requests[id]?.method}: ${error.message}`
        accountOf.set(result as number, subject.accounts[id] ?? '')
        confirmed += 1
        if (confirmed === requests.length) events.live()
      } else if (params !== undefined) sawPubsub(params, accountOf, events, atMs)
      return null
    },
  })
}

export function observeMetrics(endpoint: Endpoint, events: ObserverEvents): Observer {
  const url = new URL(endpoint.url)
  if (!url.pathname.endsWith(streamPath)) url.pathname = url.pathname.replace(/\/*$/, streamPath)
  url.searchParams.set('events', 'ContentionData,Lifecycle')
  return observeSocket({ ...endpoint, url: url.href }, events, {
    opened: () => events.live(),
    take(message, atMs) {
      const { Lifecycle, ContentionData } = message as Partial<Payloads>
      const block = (Lifecycle ?? ContentionData)?.block_number
      if (block !== undefined) events.saw(String(block), block, atMs)
      return null
    },
  })
}

interface Protocol {
  opened(socket: NodeSocket): void
  /** Returns what is wrong when the endpoint refused something. */
  take(message: unknown, atMs: number): string | null
}

function observeSocket(endpoint: Endpoint, events: ObserverEvents, protocol: Protocol): Observer {
  const headers = endpoint.token === null ? {} : { 'x-token': endpoint.token }
  const socket = new NodeSocket(endpoint.url.replace(/^http/, 'ws'), headers)
  const waiting: { text: string; atMs: number }[] = []
  let arrivedMs = 0
  let pingedMs = 0
  let isOpen = false
  let isOver = false
  const end = (problem: string) => {
    clearInterval(pinging)
    if (!isOver) events.down(problem)
    isOver = true
    socket.close()
  }
  const parseWaiting = () => {
    for (const { text, atMs } of waiting.splice(0)) {
      const problem = isOver ? null : takeText(text, atMs, protocol)
      if (problem !== null) end(problem)
    }
  }
  const pinging = setInterval(() => {
    if (!isOpen) return
    pingedMs = sharedNowMs()
    socket.ping()
  }, pingEveryMs)
  socket.onbytes = () => {
    arrivedMs = sharedNowMs()
  }
  socket.onpong = () => {
    if (pingedMs > 0) events.roundTrip(arrivedMs - pingedMs)
    pingedMs = 0
  }
  socket.onopen = () => {
    isOpen = true
    arrivedMs = sharedNowMs()
    protocol.opened(socket)
  }
  socket.onmessage = ({ data }) => {
    if (waiting.length === 0) setImmediate(parseWaiting)
    waiting.push({ text: data, atMs: arrivedMs })
  }
  socket.onclose = ({ code, reason }) => {
    if (isOver) return
    if (isOpen)
      end(`closed the connection${code === closedWithoutCode ? '' : ` (${code} ${reason})`}`)
    else void whyRefused(endpoint.url, headers).then(end)
  }
  return {
    close() {
      isOver = true
      end('')
    },
  }
}

function takeText(text: string, atMs: number, protocol: Protocol): string | null {
  let message: unknown
  try {
    message = JSON.parse(text)
  } catch {
    return 'sent a message that is not JSON'
  }
  return typeof message === 'object' && message !== null ? protocol.take(message, atMs) : null
}

interface PubsubMessage {
  readonly id?: unknown
  readonly result?: unknown
  readonly error?: { readonly message: string }
  readonly params?: {
    readonly subscription: number
    readonly result: {
      readonly slot?: number
      readonly context?: { readonly slot: number }
      readonly value?: { readonly signature?: string }
    }
  }
}

function sawPubsub(
  { subscription, result }: NonNullable<PubsubMessage['params']>,
  accountOf: ReadonlyMap<number, string>,
  events: ObserverEvents,
  atMs: number,
): void {
  if (result.slot !== undefined) {
    events.saw(String(result.slot), result.slot, atMs)
    return
  }
  const slot = result.context?.slot ?? 0
  const signature = result.value?.signature
  if (signature === undefined) {
    events.saw(writeKey(accountOf.get(subscription) ?? '', slot), slot, atMs)
    return
  }
  const bytes = decodeBase58(signature)
  if (bytes?.length === signatureBytes) events.saw(signatureKey(bytes), slot, atMs)
}

interface PubsubRequest {
  readonly jsonrpc: '2.0'
  readonly id: number
  readonly method: string
  readonly params: readonly unknown[]
}

function pubsubRequests({ unit, accounts, commitment }: Subject): PubsubRequest[] {
  const request = (method: string, params: readonly unknown[], id = 0): PubsubRequest => {
    return { jsonrpc: '2.0', id, method, params }
  }
  if (unit === 'slot') return [request('slotSubscribe', [])]
  if (unit === 'account')
    return accounts.map((account, id) => {
      // An empty slice: the write counts, not its data.
      const dataSlice = { offset: 0, length: 0 }
      return request(
        'accountSubscribe',
        [account, { commitment, encoding: 'base64', dataSlice }],
        id,
      )
    })
  // logsSubscribe takes one account in `mentions`.
  if (accounts.length === 0) return [request('logsSubscribe', ['all', { commitment }])]
  return accounts.map((account, id) =>
    request('logsSubscribe', [{ mentions: [account] }, { commitment }], id),
  )
}

/** A failed handshake has no status; a plain request to the same address usually shows why. */
async function whyRefused(url: string, headers: Readonly<Record<string, string>>): Promise<string> {
  try {
    const { status } = await fetch(url.replace(/^ws/, 'http'), {
      headers,
      signal: AbortSignal.timeout(probeMsMax),
    })
    if (status === 401 || status === 403) return `refused the token (HTTP status ${status})`
    return `does not accept a WebSocket (HTTP status ${status})`
  } catch (error) {
    const { cause } = error as { readonly cause?: { readonly code?: string } }
    return `cannot be reached (${cause?.code ?? 'no answer'})`
  }
}

// Observes shreds that arrive on a UDP port. Thread: observer.
// A slot is seen with its first shred, a transaction with the datagram that completes its batch.
// Answers the challenge of ShredStream, so that the port can be the destination of a subscription.

const bufferBytes = 32 * 1024 * 1024

export function observeShreds(
  { url }: Endpoint,
  { unit, accounts }: Subject,
  events: ObserverEvents,
): Observer {
  const { hostname, port } = new URL(url)
  const host = hostname.replace(/^\[|\]$/g, '')
  const keys = accounts.map(decodeKey).filter((key) => key !== null)
  const transactions = unit === 'transaction' ? new ShredTransactions(keys) : null
  let socket: UdpSocket | null = null
  let isClosed = false
  let newest = -1
  UdpSocket.open({ host, port: Number(port), bufferBytes }).then(
    (opened) => {
      socket = opened
      if (isClosed) return opened.close()
      opened.onMessage((packet, from, fromPort) => {
        const atMs = sharedNowMs()
        if (isChallenge(packet)) return opened.sendTo(packet, from, fromPort)
        if (flawOf(packet, 0, packet.length, 0) !== flaws.none) return
        if (transactions === null) {
          const slot = slotOf(packet)
          if (slot > newest) events.saw(String(slot), slot, atMs)
          newest = Math.max(newest, slot)
          return
        }
        for (const { signature, slot } of transactions.add(packet))
          events.saw(signatureKey(signature), slot, atMs)
      })
      events.live()
    },
    (error: unknown) => {
      if (!isClosed) events.down(messageOf(error))
    },
  )
  return {
    close() {
      isClosed = true
      socket?.close()
    },
  }
}

// Observes the slot of an RPC endpoint by polling getSlot. Thread: observer.
// A slot is seen at the first answer that names it, so it comes up to one poll late.

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
