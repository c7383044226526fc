// The WebSocket that the clients use: the platform's, or one that is passed.

/** The subset of a WebSocket that is used; browsers', undici's and `ws`' implement it. */
export interface SocketLike {
  onopen: ((event: never) => void) | null
  onmessage: ((event: never) => void) | null
  onclose: ((event: never) => void) | null
  onerror: ((event: never) => void) | null
  send(text: string): void
  close(): void
}

/** Throws where the platform has none. */
export function platformSocket(): (url: string) => SocketLike {
  // Reason for the cast: not every platform that this runs on has the constructor.
  const { WebSocket } = globalThis as { WebSocket?: new (url: string) => SocketLike }
  if (WebSocket === undefined)
    throw new Error(
      'this platform has no WebSocket (Node has one from version 22 on): ' +
        "pass one, for example open: (url) => new WebSocket(url) with WebSocket from 'ws'",
    )
  return (url) => new WebSocket(url)
}
