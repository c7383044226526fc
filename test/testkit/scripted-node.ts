// A Solana node that does what a test tells it to: answers, errors, statuses, silence, half an
// answer. It answers the probes of a set by itself and counts everything else that it was asked.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface Asked {
  readonly id: number
  readonly method: string
  readonly paramsText: string
  readonly body: string
  readonly headers: IncomingMessage['headers']
}

/** Writes the whole HTTP answer, or never does. */
export type Script = (asked: Asked, response: ServerResponse) => void

const probes = new Set(['getHealth', 'getMaxShredInsertSlot'])

export class ScriptedNode {
  isHealthy = true
  slots = { processed: 1000, finalized: 968 }
  genesis = 'genesis'
  /** Of the block at a slot. */
  blockhash = (slot: number) => `hash${slot}`
  /** What it was asked, probes left out. */
  readonly asked: Asked[] = []
  /** Answers methods; those that have none get the name of the node. */
  readonly scripts: Record<string, Script> = {}
  readonly name: string
  readonly #server: Server
  #port = 0

  constructor(name = 'node') {
    this.name = name
    this.#server = createServer((request, response) => {
      const chunks: Buffer[] = []
      request.on('data', (chunk) => chunks.push(chunk))
      request.on('end', () => this.#take(Buffer.concat(chunks).toString(), request, response))
    })
    this.#server.keepAliveTimeout = 60_000
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`
  }

  count(method: string): number {
    return this.asked.filter((one) => one.method === method).length
  }

  async listen(): Promise<this> {
    await new Promise<void>((resolve) =>
      this.#server.listen(this.#port, '127.0.0.1', () => resolve()),
    )
    this.#port = (this.#server.address() as AddressInfo).port
    return this
  }

  close(): Promise<void> {
    return new Promise((resolve) => {
      this.#server.close(() => resolve())
      this.#server.closeAllConnections()
    })
  }

  #take(body: string, { headers }: IncomingMessage, response: ServerResponse): void {
    response.setHeader('content-type', 'application/json')
    const parsed = JSON.parse(body)
    if (Array.isArray(parsed)) {
      response.end(JSON.stringify(parsed.map((one) => this.#probe(one.id, one.method, one.params))))
      return
    }
    const { method } = parsed
    if (probes.has(method)) {
      response.end(JSON.stringify(this.#probe(parsed.id, method, [])))
      return
    }
    const paramsText = /,"params":(.*)\}$/s.exec(body)?.[1] ?? ''
    const asked = { id: parsed.id, method, paramsText, body, headers }
    this.asked.push(asked)
    const script = this.scripts[method]
    if (script !== undefined) script(asked, response)
    else result(`"${this.name}"`)(asked, response)
  }

  #probe(id: unknown, method: string, params: { commitment?: string }[]): object {
    if (method === 'getSlot') {
      const { processed, finalized } = this.slots
      const result = params[0]?.commitment === 'finalized' ? finalized : processed
      return { jsonrpc: '2.0', id, result }
    }
    if (method === 'getHealth')
      return this.isHealthy
        ? { jsonrpc: '2.0', id, result: 'ok' }
        : { jsonrpc: '2.0', id, error: { code: -32005, message: 'behind' } }
    if (method === 'getGenesisHash') return { jsonrpc: '2.0', id, result: this.genesis }
    if (method === 'getLatestBlockhash') {
      const slot = this.slots.finalized
      const result = { context: { slot }, value: { blockhash: this.blockhash(slot) } }
      return { jsonrpc: '2.0', id, result }
    }
    return { jsonrpc: '2.0', id, result: this.slots.processed }
  }
}

/** The usual envelope of agave around a result that is written out. */
export function result(text: string): Script {
  return (asked, response) => response.end(`{"jsonrpc":"2.0","result":${text},"id":${asked.id}}\n`)
}

export function error(code: number, message: string, data?: unknown): Script {
  return ({ id }, response) =>
    response.end(JSON.stringify({ jsonrpc: '2.0', error: { code, message, data }, id }))
}

export function status(code: number): Script {
  return (_, response) => response.writeHead(code).end('<html>no</html>')
}

/** Takes the call and never answers. */
export const silence: Script = () => {}

/** Takes the call and drops the connection. */
export const drop: Script = (_, response) => response.socket?.destroy()
