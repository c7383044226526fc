// A Solana node that is only as good as a test wants: health, sendTransaction, statuses.
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'

export class NodeStub {
  isHealthy = true
  /** Answers sendTransaction with this error instead of a signature. */
  error: object | null = null
  readonly sent: { transaction: string; options: unknown }[] = []
  /** Answer of getSignatureStatuses for every signature. */
  status: object | null = null
  readonly connections = new Set<unknown>()
  readonly #server: Server

  constructor() {
    this.#server = createServer((request, response) => {
      let text = ''
      request.on('data', (chunk) => {
        text += chunk
      })
      request.on('end', () => {
        const asked = JSON.parse(text)
        const answer = Array.isArray(asked)
          ? asked.map((call) => this.#answer(call))
          : this.#answer(asked)
        response.setHeader('content-type', 'application/json')
        response.end(JSON.stringify(answer))
      })
    })
    this.#server.on('connection', (socket) => this.connections.add(socket))
  }

  #answer({ id, method, params }: { id: unknown; method: string; params: unknown[] }): object {
    return { jsonrpc: '2.0', id, ...this.#outcome(method, params) }
  }

  #outcome(method: string, params: unknown[]): object {
    if (method === 'getHealth')
      return this.isHealthy ? { result: 'ok' } : { error: { code: -32005, message: 'behind' } }
    if (method === 'getSignatureStatuses')
      return { result: { value: (params[0] as unknown[]).map(() => this.status) } }
    if (method !== 'sendTransaction') return { error: { code: -32601, message: 'not found' } }
    this.sent.push({ transaction: params[0] as string, options: params[1] })
    return this.error === null ? { result: 'signature' } : { error: this.error }
  }

  /** Listens; on the same port when it did before. */
  listen(port = 0): Promise<number> {
    return new Promise((resolve) => {
      this.#server.listen(port, '127.0.0.1', () =>
        resolve((this.#server.address() as AddressInfo).port),
      )
    })
  }

  close(): Promise<void> {
    return new Promise((resolve) => {
      this.#server.close(() => resolve())
      this.#server.closeAllConnections()
    })
  }
}
