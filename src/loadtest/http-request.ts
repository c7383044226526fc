// Encodes the calls of a load as whole HTTP/1.1 requests, once before the run. Thread: load. Pure.
import type { DriverTarget } from './driver.ts'

/** The bytes of a request: POST of a body, or GET of a path for a metrics call without a body. */
export function encodeRequest(
  target: Pick<DriverTarget, 'kind' | 'url' | 'token'>,
  call: string,
): Buffer {
  const url = new URL(target.url)
  const isGet = target.kind === 'metrics' && call.startsWith('/')
  const path = isGet ? call : `${url.pathname}${url.search}`
  const body = Buffer.from(isGet ? '' : call)
  const lines = [
    `${isGet ? 'GET' : 'POST'} ${path} HTTP/1.1`,
    `host: ${url.host}`,
    'accept: */*',
    ...(target.token === null ? [] : [`x-token: ${target.token}`]),
    ...basicOf(url),
    ...(isGet ? [] : [`content-type: ${typeOf(target.kind)}`, `content-length: ${body.length}`]),
  ]
  return Buffer.concat([Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1'), body])
}

function typeOf(kind: string): string {
  return kind === 'indexer' ? 'text/plain' : 'application/json'
}

/** Credentials of `http://name:password@host` go into the header that the indexer reads. */
function basicOf({ username, password }: URL): string[] {
  if (username === '') return []
  const pair = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`
  return [`authorization: Basic ${Buffer.from(pair).toString('base64')}`]
}
