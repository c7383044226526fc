// A route that lands a known share of what it accepts: it forwards some transactions to a node and
// forgets the others.
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { encodeBase58 } from '../../src/chain/solana/base58.ts'
import { SeededRandom } from '../../src/loadtest/statistics.ts'

export class LandingSink {
  received = 0
  /** Signatures of what was forwarded, in base58. */
  readonly signatures: string[] = []
  readonly #server: Server

  private constructor(
    node: string,
    options: { readonly share: number; readonly seed: number; readonly tipAccount: string },
  ) {
    const random = new SeededRandom(options.seed)
    this.#server = createServer(async (request, reply) => {
      let body = ''
      for await (const chunk of request) body += chunk
      const { method, params } = JSON.parse(body) as { method: string; params: string[] }
      let result: unknown = 'signature'
      if (method === 'getTipAccounts') result = [options.tipAccount]
      else if (method === 'sendTransaction') {
        this.received += 1
        if (random.next() < options.share) {
          this.signatures.push(signatureOf(params[0]!))
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

  get forwarded(): number {
    return this.signatures.length
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  close(): void {
    this.#server.close()
    this.#server.closeAllConnections()
  }
}

/** The first signature; the byte before it is their number. */
function signatureOf(transaction: string): string {
  return encodeBase58(Buffer.from(transaction, 'base64').subarray(1, 65))
}
