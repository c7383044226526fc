// Calls every endpoint of a running server once, as its customers and its operator do, for tests
// that break something underneath. Nothing here throws: a failed call is returned as text.
import { askOperator } from '../../src/base/transport/unix-socket.ts'
import type { Server } from './server.ts'
import { askSocket, openSocket, tryGrpc } from './try-endpoint.ts'

export interface Credentials {
  readonly token: string
  readonly indexer: { readonly user: string; readonly password: string }
}

/** No call may stay without an answer for longer than this. */
const callMsMax = 30_000

/** One call of each endpoint, by its name; what it gives is `ok` or an error. */
export function endpointCalls(
  server: Server,
  who: Credentials,
): Record<string, () => Promise<string>> {
  return {
    rpc: () => post(server.url('rpc'), { 'x-token': who.token }, 'getSlot'),
    websocket: () => websocket(server, who.token),
    grpc: () => grpc(server, who.token),
    metrics: () => get(`${server.url('metrics')}/v1/status`, {}),
    prometheus: () => get(`${server.url('metrics')}/metrics`, {}),
    tpu: () => post(server.url('tpu'), {}, 'getTipAccounts'),
    indexer: () => get(`${server.url('indexer')}/?query=SELECT%201`, indexerHeaders(who)),
    operator: () => operator(server.data),
  }
}

/** By endpoint: `ok`, or the error that the caller saw. `silence` is the one thing forbidden. */
export async function callEveryEndpoint(
  server: Server,
  who: Credentials,
): Promise<Record<string, string>> {
  const outcomes = await Promise.all(
    Object.entries(endpointCalls(server, who)).map(
      async ([name, call]) => [name, await outcomeOf(call)] as const,
    ),
  )
  return Object.fromEntries(outcomes)
}

async function outcomeOf(call: () => Promise<string>): Promise<string> {
  let timer: NodeJS.Timeout | undefined
  const silence = new Promise<string>((resolve) => {
    timer = setTimeout(() => resolve('silence'), callMsMax)
  })
  const answered = call().catch((error: unknown) => `error: ${describe(error)}`)
  const outcome = await Promise.race([answered, silence])
  clearTimeout(timer)
  return outcome
}

function describe(error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause.message : ''
  return `${error instanceof Error ? error.message : String(error)} ${cause}`.trim()
}

function indexerHeaders({ token, indexer }: Credentials): Record<string, string> {
  const basic = Buffer.from(`${indexer.user}:${indexer.password}`).toString('base64')
  return { 'x-token': token, authorization: `Basic ${basic}` }
}

async function post(url: string, headers: Record<string, string>, method: string): Promise<string> {
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', connection: 'close', ...headers },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method }),
  })
  const text = await response.text()
  return response.status === 200 && text.includes('"result"') ? 'ok' : text
}

async function get(url: string, headers: Record<string, string>): Promise<string> {
  const response = await fetch(url, { headers: { connection: 'close', ...headers } })
  const text = await response.text()
  return response.status === 200 ? 'ok' : `${response.status} ${text}`
}

async function websocket(server: Server, token: string): Promise<string> {
  const socket = await openSocket(server, token)
  const closed = new Promise<never>((_, reject) => {
    socket.once('close', (code) => reject(new Error(`closed ${code}`)))
  })
  try {
    const answer = await Promise.race([askSocket(socket, 1, 'slotSubscribe'), closed])
    return 'result' in (answer as object) ? 'ok' : JSON.stringify(answer)
  } finally {
    closed.catch(() => {})
    socket.terminate()
  }
}

async function grpc(server: Server, token: string): Promise<string> {
  const { status, body } = await tryGrpc(server, { headers: [['x-token', token]] })
  return status === 0 ? 'ok' : `${status} ${body}`
}

async function operator(data: string): Promise<string> {
  const answer = await askOperator(data, 'status')
  return answer.ok ? 'ok' : answer.message
}
