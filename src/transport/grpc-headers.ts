// Sees credential headers that were sent twice. Thread: main, once per call.
// http2 joins a repeated `x-token` with a comma but drops a second `authorization` in silence; only
// the raw header list still shows it, and only to a listener that stands before the library's own.
import type { Http2Server, ServerHttp2Stream } from 'node:http2'

export class RepeatedHeaders {
  readonly #streams = new WeakSet<ServerHttp2Stream>()

  /** Listens in on the http2 servers inside `server`; does nothing if they are not there. */
  watch(server: object): void {
    const servers = (server as { http2Servers?: unknown }).http2Servers
    if (!(servers instanceof Map)) return
    for (const http2Server of servers.keys() as Iterable<Http2Server>)
      http2Server.prependListener('stream', (stream, _headers, _flags, ...rest: unknown[]) => {
        if (Array.isArray(rest[0]) && repeats(rest[0])) this.#streams.add(stream)
      })
  }

  has(stream: ServerHttp2Stream | null): boolean {
    return stream !== null && this.#streams.has(stream)
  }
}

/** Raw headers are names and values in turn. */
function repeats(raw: readonly string[]): boolean {
  let tokens = 0
  let authorizations = 0
  for (let index = 0; index < raw.length; index += 2) {
    if (raw[index] === 'x-token') tokens++
    else if (raw[index] === 'authorization') authorizations++
  }
  return tokens > 1 || authorizations > 1
}
