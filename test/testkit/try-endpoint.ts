// One call on each of the bundle's endpoints with the credentials that a test tries, as a plain
// client would make it: node:http, ws and grpc-js.
import { request } from 'node:http'
import { type ChannelCredentials, Client, credentials, Metadata } from '@grpc/grpc-js'
import { WebSocket } from 'ws'
import { rawCall } from './raw-grpc.ts'
import type { Server } from './server.ts'

export type EndpointName = 'rpc' | 'websocket' | 'grpc'

/** What is sent; a header may be repeated. */
export interface Sent {
  readonly headers?: readonly (readonly [name: string, value: string])[]
  readonly query?: string
}

/** The outcome in the endpoint's own code: an HTTP status, 101 for an open socket, a gRPC code. */
export interface Tried {
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly body: string
}

export function tryEndpoint(server: Server, endpoint: EndpointName, sent: Sent): Promise<Tried> {
  switch (endpoint) {
    case 'rpc':
      return tryRpc(server, sent)
    case 'websocket':
      return tryWebsocket(server, sent)
    case 'grpc':
      return tryGrpc(server, sent)
  }
}

export function tryRpc(
  server: Server,
  sent: Sent,
  body = '{"jsonrpc":"2.0","id":7,"method":"getHealth"}',
): Promise<Tried> {
  const { host, port } = server.doors.rpc!
  return new Promise((resolve, reject) => {
    // A flat list of raw headers, so that one can be repeated.
    const headers = ['host', `${host}:${port}`, 'content-type', 'application/json']
    headers.push('content-length', String(Buffer.byteLength(body)))
    for (const [name, value] of sent.headers ?? []) headers.push(name, value)
    const call = request(
      { host, port, method: 'POST', path: `/${sent.query ?? ''}`, headers },
      (response) => {
        let text = ''
        response.on('data', (chunk) => {
          text += chunk
        })
        response.on('end', () =>
          resolve({ status: response.statusCode ?? 0, headers: response.headers, body: text }),
        )
      },
    )
    call.on('error', reject)
    call.end(body)
  })
}

export function tryWebsocket(server: Server, sent: Sent): Promise<Tried> {
  const { host, port } = server.doors.websocket!
  return new Promise((resolve, reject) => {
    const headers = [
      ...['host', `${host}:${port}`, 'connection', 'Upgrade', 'upgrade', 'websocket'],
      ...['sec-websocket-version', '13', 'sec-websocket-key', 'dGhlIHNhbXBsZSBub25jZQ=='],
    ]
    for (const [name, value] of sent.headers ?? []) headers.push(name, value)
    const call = request({ host, port, method: 'GET', path: `/${sent.query ?? ''}`, headers })
    call.on('upgrade', (response, socket) => {
      socket.destroy()
      resolve({ status: response.statusCode ?? 0, headers: response.headers, body: '' })
    })
    call.on('response', (response) => {
      let text = ''
      response.on('data', (chunk) => {
        text += chunk
      })
      response.on('end', () =>
        resolve({ status: response.statusCode ?? 0, headers: response.headers, body: text }),
      )
    })
    call.on('error', reject)
    call.end()
  })
}

/** Of a gRPC client that takes any certificate. */
export function credentialsOf(hasTls: boolean): ChannelCredentials {
  if (!hasTls) return credentials.createInsecure()
  return credentials.createSsl(null, null, null, { rejectUnauthorized: false })
}

export function tryGrpc(server: Server, sent: Sent): Promise<Tried> {
  const { host, port, tls } = server.doors.grpc!
  const names = sent.headers?.map(([name]) => name) ?? []
  if (new Set(names).size < names.length) return tryGrpcTwice(`${host}:${port}`, sent)
  const client = new Client(`${host}:${port}`, credentialsOf(tls))
  const metadata = new Metadata()
  for (const [name, value] of sent.headers ?? []) metadata.add(name, value)
  return new Promise((resolve) => {
    client.makeUnaryRequest(
      `/geyser.Geyser/GetVersion${sent.query ?? ''}`,
      (bytes: Buffer) => bytes,
      String,
      Buffer.alloc(0),
      metadata,
      (error, value) => {
        client.close()
        resolve({ status: error?.code ?? 0, headers: {}, body: error?.details ?? String(value) })
      },
    )
  })
}

/** With header lines that a client library would join or drop. */
async function tryGrpcTwice(target: string, sent: Sent): Promise<Tried> {
  const [first, ...others] = sent.headers!
  const headers = { ':path': '/geyser.Geyser/GetVersion', [first![0]]: first![1] }
  const answer = await rawCall(target, headers, null, others)
  const { 'grpc-status': status, 'grpc-message': message } = {
    ...answer.headers,
    ...answer.trailers,
  }
  return { status: Number(status), headers: {}, body: String(message ?? '') }
}

export function openSocket(server: Server, token: string): Promise<WebSocket> {
  const socket = new WebSocket(server.url('websocket'), { headers: { 'x-token': token } })
  return new Promise((resolve, reject) => {
    socket.once('open', () => resolve(socket))
    socket.once('error', reject)
  })
}

/** One JSON-RPC call on an open socket. */
export function askSocket(socket: WebSocket, id: number, method: string): Promise<unknown> {
  return new Promise((resolve) => {
    const onMessage = (data: unknown) => {
      const answer = JSON.parse(String(data)) as { id?: number }
      if (answer.id !== id) return
      socket.off('message', onMessage)
      resolve(answer)
    }
    socket.on('message', onMessage)
    socket.send(JSON.stringify({ jsonrpc: '2.0', id, method }))
  })
}
