// One JSON-RPC call over HTTP, for what a landing test asks of routes and nodes.
import { accept, type Outcome, refuse } from '../../base/errors.ts'

export interface RpcAddress {
  readonly url: URL
  readonly token: string | null
}

/** Also bounds the calls in flight: the rate times this. */
const timeoutMs = 10_000

/** The result; a refusal's code is the JSON-RPC code, the HTTP status, or of the connection. */
export async function callRpc(
  { url, token }: RpcAddress,
  method: string,
  params: readonly unknown[],
): Promise<Outcome<unknown>> {
  try {
    const answer = await fetch(url, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        ...(token === null ? {} : { 'x-token': token }),
      },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
      signal: AbortSignal.timeout(timeoutMs),
    })
    const text = await answer.text()
    const refused = (why: string) => refuse('rejected', `HTTP ${answer.status}`, why)
    if (answer.status === 401 || answer.status === 403)
      return refused(`refused the token (HTTP status ${answer.status})`)
    const { result, error } = parsed(text)
    if (error !== undefined)
      return refuse('rejected', String(error.code), `refused ${method}: ${error.message}`)
    if (answer.status !== 200 || result === undefined)
      return refused(`answered ${method} with HTTP status ${answer.status}`)
    return accept(result)
  } catch (error) {
    const { name, cause } = error as { name?: string; cause?: { code?: string } }
    const code = name === 'TimeoutError' ? 'timeout' : (cause?.code ?? 'no answer')
    return refuse('unavailable', code, `cannot be reached (${code})`)
  }
}

interface RpcAnswer {
  readonly result?: unknown
  readonly error?: { readonly code: number; readonly message: string }
}

function parsed(text: string): RpcAnswer {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null ? value : {}
  } catch {
    return {}
  }
}
