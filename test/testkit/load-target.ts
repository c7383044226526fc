// Endpoints for `sluice bench load` in tests: JSON-RPC over HTTP that can refuse, stall and die.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface LoadTarget {
  readonly url: string
  /** The bodies of all requests, in the order of their arrival. */
  readonly bodies: string[]
  /** Closes every connection and accepts no more. */
  stop(): Promise<void>
}

export type Answer = (request: IncomingMessage, response: ServerResponse, body: string) => void

export const answerOk: Answer = (_, response) => {
  const text = '{"jsonrpc":"2.0","result":1,"id":1}'
  response.writeHead(200, { 'content-length': text.length }).end(text)
}

export async function startLoadTarget(answer: Answer = answerOk): Promise<LoadTarget> {
  const bodies: string[] = []
  const server: Server = createServer((request, response) => {
    let body = ''
    request.setEncoding('utf8')
    request.on('data', (chunk: string) => {
      body += chunk
    })
    request.on('end', () => {
      bodies.push(body)
      answer(request, response, body)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const stop = () =>
    new Promise<void>((resolve) => {
      server.close(() => resolve())
      server.closeAllConnections()
    })
  return { url: `http://127.0.0.1:${port}`, bodies, stop }
}
