// A route that lands a known share of what it accepts: it forwards some transactions to a node and
// forgets the others.
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Random } from '../../src/loadtest/statistics.ts'

export class LandingSink {
  received = 0
  forwarded = 0
  readonly #server: Server

  private constructor(
    node: string,
    options: { readonly share: number; readonly seed: number; readonly tipAccount: string },
  ) {
    const random = new Random(options.seed)
    this.#server = createServer(async (request, reply) => {
      let body = ''
      for await (const chunk of request) body += chunk
      const { method } = JSON.parse(body) as { method: string }
      let result: unknown = 'signature'
      if (method === 'getTipAccounts') result = [options.tipAccount]
      else if (method === 'sendTransaction') {
        this.received += 1
        if (random.next() < options.share) {
          this.forwarded += 1
          const headers = { 'content-type': 'application/json' }
          await (await fetch(node, { method: 'POST', headers, body })).text()
        }
      }
      reply.end(JSON.stringify({ jsonrpc: '2.0', id: 1, result }))
    })
  }

  static async open(
    node: string,
    options: { readonly share: number; readonly seed: number; readonly tipAccount: string },
  ): Promise<LandingSink> {
    const sink = new LandingSink(node, options)
    await new Promise<void>((resolve) => sink.#server.listen(0, '127.0.0.1', resolve))
    return sink
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  close(): void {
    this.#server.close()
    this.#server.closeAllConnections()
  }
}
