// Calls the operator API, over its socket or its port, with whatever headers and body a test wants.
import { request } from 'node:http'
import { connect } from 'node:net'

export interface ApiAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly text: string
  json(): Record<string, unknown>
  /** The code of a refusal; `ok` without one. */
  readonly code: string
}

export type ApiTarget = { readonly socketPath: string } | { readonly port: number }

export interface ApiCall {
  readonly method?: string
  /** Sent as JSON. */
  readonly body?: unknown
  /** Sent as it is. */
  readonly raw?: string
  readonly headers?: Readonly<Record<string, string>>
}

export function callApi(target: ApiTarget, path: string, call: ApiCall = {}): Promise<ApiAnswer> {
  const { method = call.body === undefined && call.raw === undefined ? 'GET' : 'POST' } = call
  const text = call.raw ?? (call.body === undefined ? undefined : JSON.stringify(call.body))
  const type = text === undefined ? {} : { 'content-type': 'application/json' }
  const headers = { host: 'localhost', ...type, ...call.headers }
  // A connection of its own: one that was kept would be of a server before a restart.
  const options = { ...target, host: '127.0.0.1', method, path, headers, agent: false }
  return new Promise((done, fail) => {
    const sent = request(options, (response) => {
      const chunks: Buffer[] = []
      response.on('data', (chunk: Buffer) => chunks.push(chunk))
      response.on('end', () => {
        const body = Buffer.concat(chunks).toString()
        const json = () => JSON.parse(body) as Record<string, unknown>
        const isRefused = response.statusCode !== 200
        const code = isRefused ? (json().error as { code: string }).code : 'ok'
        const status = response.statusCode ?? 0
        done({ status, headers: response.headers, text: body, json, code })
      })
    })
    sent.on('error', fail)
    sent.end(text)
  })
}

/** Writes bytes, ends its side, and gives back what came until the server closed. */
export function writeAndEnd(socketPath: string, bytes: string): Promise<string> {
  return new Promise((done) => {
    const socket = connect(socketPath)
    let text = ''
    socket.on('data', (chunk) => {
      text += chunk
    })
    socket.on('close', () => done(text))
    socket.on('error', () => done(text))
    socket.end(bytes)
  })
}

/** The path of the operator API's socket. */
export function apiSocket(data: string): { readonly socketPath: string } {
  return { socketPath: `${data}/operator-http.sock` }
}
