// HTTP and WebSocket requests from a loopback address of one's choice, each on its own connection.
import { type IncomingHttpHeaders, request } from 'node:http'
import { WebSocket } from 'ws'

export interface Got {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly body: string
}

export interface Sending {
  readonly method?: string
  readonly body?: string
  readonly headers?: Record<string, string>
}

/** Sends one request; a connection that breaks off rejects. */
export function sendFrom(localAddress: string, url: string, sending: Sending = {}): Promise<Got> {
  const { method = 'GET', body } = sending
  const headers = { connection: 'keep-alive', ...sending.headers }
  return new Promise((resolve, reject) => {
    const sent = request(url, { method, localAddress, headers, agent: false }, (response) => {
      const chunks: Buffer[] = []
      response.on('data', (chunk: Buffer) => chunks.push(chunk))
      response.on('error', reject)
      response.on('end', () => {
        sent.destroy()
        resolve({
          status: response.statusCode ?? 0,
          headers: response.headers,
          body: Buffer.concat(chunks).toString(),
        })
      })
    })
    sent.on('error', reject)
    sent.end(body)
  })
}

/** Opens a WebSocket: 101, or the status with which the handshake was refused. */
export function upgradeFrom(
  localAddress: string,
  url: string,
  headers: Record<string, string> = {},
): Promise<{ status: number; socket: WebSocket }> {
  const socket = new WebSocket(url, { localAddress, headers })
  return new Promise((resolve) => {
    socket.on('error', () => {})
    socket.on('open', () => resolve({ status: 101, socket }))
    socket.on('unexpected-response', (_, response) => {
      response.resume()
      resolve({ status: response.statusCode ?? 0, socket })
    })
  })
}

/** A batch of calls for the newest block with whole transactions. */
export function blockBatch(count: number): string {
  const call = { jsonrpc: '2.0', method: 'eth_getBlockByNumber', params: ['latest', true] }
  return JSON.stringify(Array.from({ length: count }, (_, id) => ({ ...call, id })))
}
