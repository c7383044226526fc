// A WebSocket that first exchanges the token for a one-time ticket: browsers cannot send headers
// with a handshake, and a token in an address would end in logs. Thread: browser; no DOM.
import type { SocketLike } from '../client/client.ts'

export class TicketSocket implements SocketLike {
  onopen: SocketLike['onopen'] = null
  onmessage: SocketLike['onmessage'] = null
  onclose: SocketLike['onclose'] = null
  onerror: SocketLike['onerror'] = null
  #socket: WebSocket | null = null
  #isClosed = false

  constructor(url: string, ticket: () => Promise<string>) {
    ticket().then(
      (found) => this.#open(`${url}&ticket=${encodeURIComponent(found)}`),
      () => this.onclose?.({ code: 1006 } as never),
    )
  }

  send(text: string): void {
    this.#socket?.send(text)
  }

  close(): void {
    this.#isClosed = true
    this.#socket?.close()
  }

  #open(url: string): void {
    if (this.#isClosed) return
    const socket = new WebSocket(url)
    this.#socket = socket
    socket.onopen = (event) => this.onopen?.(event as never)
    socket.onmessage = (event) => this.onmessage?.(event as never)
    socket.onclose = (event) => this.onclose?.(event as never)
  }
}
