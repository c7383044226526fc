// Stock Solana clients cannot send a header in the WebSocket handshake. These load them unmodified
// over a subclass of `ws` that adds the token.
import { createRequire } from 'node:module'
import { WebSocket } from 'ws'

type Options = ConstructorParameters<typeof WebSocket>[2]

/** A WebSocket that shows the token, whatever its user knows of it. */
export function tokenSocket(token: string): typeof WebSocket {
  // Reason for the cast: the overloads of the constructor are not for subclasses to repeat.
  return class extends WebSocket {
    constructor(url: string, protocolsOrOptions?: unknown, options?: Options) {
      const given = typeof protocolsOrOptions === 'object' ? protocolsOrOptions : {}
      super(url, { ...given, ...options, headers: { 'x-token': token } })
    }
  } as unknown as typeof WebSocket
}

/** kit takes the platform's WebSocket when there is one. */
export async function kitWithToken(token: string): Promise<typeof import('@solana/kit')> {
  // Reason for the cast: the platform's type has browser-only members.
  ;(globalThis as { WebSocket?: unknown }).WebSocket = tokenSocket(token)
  return import('@solana/kit')
}

/** web3.js requires `ws` through rpc-websockets: its entry in the cache is set beforehand. */
export function web3WithToken(token: string): typeof import('@solana/web3.js') {
  const require = createRequire(import.meta.url)
  const web3Path = require.resolve('@solana/web3.js')
  const socketsPath = createRequire(web3Path).resolve('rpc-websockets')
  const wsPath = createRequire(socketsPath).resolve('ws')
  require(wsPath)
  require.cache[wsPath]!.exports = tokenSocket(token)
  // A test may have loaded them already, over the plain class.
  for (const path of [web3Path, socketsPath]) delete require.cache[path]
  return require(web3Path)
}
