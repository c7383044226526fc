// Calls a PubSub method over a WebSocket for `sluice call`, and follows a subscription.
import { NodeSocket } from '../../client/node-socket.ts'
import {
  type Answer,
  answerOf,
  CallFailure,
  type CallRequest,
  messageIn,
  sendHttp,
} from './call-http.ts'

export async function* callSocket(request: CallRequest): AsyncGenerator<Answer> {
  const { method, params = [], signal } = request
  const messages = new Messages(request)
  signal.addEventListener('abort', () => messages.close())
  try {
    await messages.opened.catch(async (error: unknown) => {
      if (signal.aborted) throw error
      // A refused upgrade hides its reason; a plain request gets it.
      const { status, body } = await sendHttp(request, 'GET')
      throw status === 426 ? error : new CallFailure(messageIn(body) ?? `HTTP ${status}`)
    })
    messages.send({ jsonrpc: '2.0', id: 1, method, params })
    const first = await messages.next()
    if (first === null) throw new CallFailure(messages.problem)
    yield answerOf(first)
    if (!/Subscribe$/.test(method)) return
    for (let text = await messages.next(); text !== null; text = await messages.next()) {
      const whole = JSON.parse(text) as { params?: { result?: unknown } }
      yield { result: whole.params?.result ?? whole, whole, isUpdate: true }
    }
    if (!signal.aborted) throw new CallFailure(messages.problem)
  } finally {
    messages.close()
  }
}

/** The messages of a socket, one by one; null when it is closed. */
class Messages {
  readonly opened: Promise<void>
  problem = 'the connection was closed'
  readonly #socket: NodeSocket
  readonly #waiting: string[] = []
  #wake = () => {}
  #isClosed = false

  constructor({ url, token, ca }: CallRequest) {
    const headers = token === '' ? {} : { 'x-token': token }
    const socket = new NodeSocket(url.replace(/^http/, 'ws'), headers, ca ?? undefined)
    this.#socket = socket
    this.opened = new Promise((resolve, reject) => {
      socket.onopen = () => resolve()
      socket.onclose = ({ code, reason }) => {
        this.problem = `the connection was closed: ${reason || code}`
        this.#isClosed = true
        this.#wake()
        reject(new Error(reason || this.problem))
      }
    })
    socket.onmessage = ({ data }) => {
      this.#waiting.push(data)
      this.#wake()
    }
  }

  send(message: object): void {
    this.#socket.send(JSON.stringify(message))
  }

  async next(): Promise<string | null> {
    while (this.#waiting.length === 0 && !this.#isClosed)
      await new Promise<void>((resolve) => {
        this.#wake = resolve
      })
    return this.#waiting.shift() ?? null
  }

  close(): void {
    this.#socket.close()
  }
}
