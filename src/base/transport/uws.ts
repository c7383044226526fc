// Loads uWebSockets.js, the native HTTP and WebSocket server, or explains what it needs.
// The only file that names the package. Its binaries are built per Node version, and
// the ones for Node 22 and later require a newer C library, so a machine can fail here and nowhere
// else.
import type {
  AppOptions,
  HttpRequest,
  HttpResponse,
  TemplatedApp,
  us_listen_socket,
  us_socket_context_t,
  WebSocket,
} from 'uWebSockets.js'
import { createRequire } from 'node:module'
import { Fault, messageOf } from '../errors.ts'

export type App = TemplatedApp
export type NativeRequest = HttpRequest
export type NativeResponse = HttpResponse
export type NativeSocket<S> = WebSocket<S>
export type UpgradeContext = us_socket_context_t
export type Listener = us_listen_socket

/** The subset of the package that the endpoints use. */
export interface Uws {
  App(options?: AppOptions): App
  SSLApp(options: AppOptions): App
  us_listen_socket_close(listener: Listener): void
}

const LISTEN_EXCLUSIVELY = 1
/** Bytes of request line and headers; the native server's own bound is 4 KiB. */
const HEAD_BYTES_MAX = 65_536
/** Module version of Node 24. From its binary on, a string of characters below 256 is sent in
 *  Latin-1 instead of UTF-8. */
const LATIN_1_MODULES = 137
const sendsLatin1 = Number(process.versions.modules) >= LATIN_1_MODULES
let loaded: Uws | undefined

/** The package; throws a Fault of kind `native-missing` with a message for the operator. */
export function uws(): Uws {
  if (loaded !== undefined) return loaded
  // biome-ignore lint/style/noProcessEnv: the package reads it once, when it is loaded.
  process.env.UWS_HTTP_MAX_HEADERS_SIZE = String(HEAD_BYTES_MAX)
  try {
    loaded = createRequire(import.meta.url)('uWebSockets.js') as Uws
    return loaded
  } catch (cause) {
    throw new Fault('native-missing', describeFailure(messageOf(cause)), { cause })
  }
}

/** Text as the native server sends it in UTF-8. */
export function nativeText(text: string | Uint8Array): string | Uint8Array {
  return sendsLatin1 && typeof text === 'string' ? Buffer.from(text) : text
}

/** Listens; an exclusive listener prevents a second one on the port, a shared one allows it. */
export function listen(
  app: App,
  at: { host: string; port: number; exclusive: boolean },
): Promise<Listener | null> {
  return new Promise((resolve) => {
    const done = (listener: Listener | false) => resolve(listener === false ? null : listener)
    if (!at.exclusive) return void app.listen(at.host, at.port, done)
    // Reason for the cast: the native function takes host, port and options together; its
    // declaration lists only port and options.
    const native = app as unknown as {
      listen(host: string, port: number, options: number, done: (l: Listener | false) => void): void
    }
    native.listen(at.host, at.port, LISTEN_EXCLUSIVELY, done)
  })
}

/** One sentence on what this machine has and what the server needs. Exported for its test. */
export function describeFailure(reason: string): string {
  const glibc = reason.match(/GLIBC_[\d.]+/)?.[0]
  const missing = glibc === undefined ? '' : ` (${glibc.replace('_', ' ')} is missing here)`
  return (
    `the native HTTP server does not load on Node ${process.versions.node}, ` +
    `${process.platform} ${process.arch}${missing}: use Node 24 or 22 with glibc 2.38 or newer ` +
    `(Debian 13, Ubuntu 24.04), or Node 20.19 or a later 20 with glibc 2.34 or newer ` +
    `(Debian 12, Ubuntu 22.04), on Linux x64 or arm64`
  )
}
