// Opens the socket of an HTTP/2 connection, whose bytes go into the memory of its reader.
// Thread: geyser.
import { connect, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import type { Http2Reader } from './http2-reader.ts'

export interface SocketEvents {
  connected(): void
  /** Something was received; called before it is read. */
  received(): void
}

export function openSocket(origin: URL, reader: Http2Reader, events: SocketEvents): Socket {
  const { protocol, hostname, port } = origin
  const host = hostname.replace(/^\[|\]$/g, '')
  if (protocol === 'https:') {
    const servername = /^[\d.]+$|:/.test(host) ? '' : host
    const options = { host, port: Number(port || 443), servername, ALPNProtocols: ['h2'] }
    const socket = connectTls(options)
    // TLS gives memory of its own.
    socket.on('data', (bytes) => {
      events.received()
      for (let at = 0; at < bytes.length; ) {
        const count = bytes.copy(reader.room(), 0, at)
        at += count
        reader.read(count)
      }
    })
    return socket.on('secureConnect', events.connected).setNoDelay(true)
  }
  // The memory of a batch is given away inside of `read`: the socket then asks for the next.
  const buffer = () => reader.room()
  const callback = (count: number) => {
    events.received()
    reader.read(count)
    return true
  }
  const socket = connect({ host, port: Number(port || 80), onread: { buffer, callback } })
  return socket.on('connect', events.connected).setNoDelay(true)
}
