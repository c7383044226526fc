// A Solana node that is only as good as a test wants: it answers, hangs, breaks, lags or refuses.
// Batches included. Every call it saw is kept by its method, in order.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'

interface Call {
  readonly id: unknown
  readonly method: string
  readonly params?: readonly unknown[]
}

/** The last step of an answer that is not the usual one. */
export type Behaviour = 'answer' | 'hang' | 'break' | 'break-late'

export class FakeNode {
  slot = 1_000
  /** Slots between processed and finalized. */
  finality = 32
  shredSlot: number | null = null
  /** Its genesis hash; null for a node that does not report it. */
  genesis: string | null = null
  isHealthy = true
  behaviour: Behaviour = 'answer'
  status = 200
  delayMs = 0
  takesBatches = true
  /** Answers of methods beside the ones it knows. */
  readonly answers = new Map<string, (params: readonly unknown[]) => unknown>()
  /** Calls but the ones of probes. */
  readonly calls: string[] = []
  probes = 0
  readonly tokens = new Set<string | undefined>()
  readonly sockets = new Set<Socket>()
  #held: { response: ServerResponse; body: string }[] = []
  #server: Server = this.#make()
  #port = 0

  get url(): string {
    return `http://127.0.0.1:${this.#port}`
  }

  /** Listens; on the same port when it did before. */
  async listen(): Promise<this> {
    await new Promise<void>((resolve) => this.#server.listen(this.#port, '127.0.0.1', resolve))
    this.#port = (this.#server.address() as AddressInfo).port
    return this
  }

  /** As a process that is killed: connections are gone, new ones are refused. */
  async kill(): Promise<void> {
    if (!this.#server.listening) return
    const closed = new Promise((resolve) => this.#server.close(resolve))
    for (const socket of this.sockets) socket.destroy()
    await closed
    this.#server = this.#make()
  }

  /** Takes no new connection; calls that it has are answered. */
  deafen(): void {
    this.#server.close()
  }

  /** Sends the answers that were pending while it hung, as a resumed process does. */
  thaw(): void {
    this.behaviour = 'answer'
    for (const { response, body } of this.#held.splice(0)) response.end(body)
  }

  #make(): Server {
    const server = createServer((request, response) => this.#take(request, response))
    server.on('connection', (socket) => {
      this.sockets.add(socket)
      socket.on('close', () => this.sockets.delete(socket))
    })
    return server
  }

  #take(request: IncomingMessage, response: ServerResponse): void {
    let text = ''
    request.on('data', (chunk) => {
      text += chunk
    })
    request.on('end', () => {
      this.tokens.add(request.headers['x-token'] as string | undefined)
      const parsed = JSON.parse(text) as Call | readonly Call[]
      const body = this.#bodyOf(parsed)
      setTimeout(() => this.#give(response, body), this.delayMs)
    })
  }

  #give(response: ServerResponse, body: string): void {
    if (this.behaviour === 'break') return void response.socket?.destroy()
    response.statusCode = this.status
    response.setHeader('content-type', 'application/json')
    if (this.behaviour === 'hang') {
      this.#held.push({ response, body })
      return
    }
    if (this.behaviour === 'break-late') {
      response.setHeader('content-length', body.length + 10)
      response.write(body, () => response.socket?.destroy())
      return
    }
    response.end(body)
  }

  #bodyOf(parsed: Call | readonly Call[]): string {
    if (!isList(parsed)) return JSON.stringify(this.#answer(parsed))
    if (this.takesBatches) return JSON.stringify(parsed.map((call) => this.#answer(call)))
    return JSON.stringify({ jsonrpc: '2.0', id: null, error: { code: -32600, message: 'batch' } })
  }

  #answer({ id, method, params = [] }: Call): object {
    const isProbe = probeMethods.has(method) && !this.answers.has(method)
    if (!isProbe) this.calls.push(method)
    else if (method === 'getHealth') this.probes++
    return { jsonrpc: '2.0', id, ...this.#outcome(method, params) }
  }

  #outcome(method: string, params: readonly unknown[]): object {
    const own = this.answers.get(method)
    if (own !== undefined) return { result: own(params) }
    if (method === 'getHealth') {
      const error = { code: -32005, message: 'Node is unhealthy', data: { numSlotsBehind: 99 } }
      return this.isHealthy ? { result: 'ok' } : { error }
    }
    if (method === 'getSlot') {
      const { commitment = 'finalized' } = (params[0] ?? {}) as { commitment?: string }
      return { result: this.slot - (commitment === 'finalized' ? this.finality : 0) }
    }
    if (method === 'getMaxShredInsertSlot' && this.shredSlot !== null)
      return { result: this.shredSlot }
    if (method === 'getGenesisHash' && this.genesis !== null) return { result: this.genesis }
    return { error: { code: -32601, message: 'Method not found' } }
  }
}

const probeMethods: ReadonlySet<string> = new Set([
  'getHealth',
  'getSlot',
  'getMaxShredInsertSlot',
  'getGenesisHash',
  'getLatestBlockhash',
])

function isList(parsed: Call | readonly Call[]): parsed is readonly Call[] {
  return Array.isArray(parsed)
}
