// Opens a TCP or TLS socket that hands over its bytes with the fewest steps. Thread: load.
import { connect as connectTcp, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import type { DriverTarget } from './driver.ts'

const readBytes = 64 * 1024

export interface SocketEvents {
  opened(): void
  /** `bytes` up to `count`; the buffer is used again for the next read. */
  read(bytes: Buffer, count: number): void
  /** Called once, also when the connection never opened. */
  closed(reason: string): void
}

export function openSocket(
  { url, connectMsMax }: Pick<DriverTarget, 'url' | 'connectMsMax'>,
  events: SocketEvents,
): Socket {
  const { protocol, hostname, port } = new URL(url)
  const isTls = protocol === 'https:' || protocol === 'wss:'
  const host = hostname.replace(/^\[|\]$/g, '')
  const at = { host, port: Number(port || (isTls ? 443 : 80)), noDelay: true }
  const callback = (count: number, buffer: Uint8Array) => {
    // Reason for the cast: Node hands back the Buffer that was given to it.
    events.read(buffer as Buffer, count)
    return true
  }
  let reason = 'it closed the connection'
  const socket = isTls
    ? connectTls({ ...at, servername: host })
    : connectTcp({ ...at, onread: { buffer: Buffer.allocUnsafe(readBytes), callback } })
  if (isTls) socket.on('data', (bytes: Buffer) => events.read(bytes, bytes.length))
  const timer = setTimeout(() => {
    reason = 'no connection within the time'
    socket.destroy()
  }, connectMsMax)
  socket.once(isTls ? 'secureConnect' : 'connect', () => {
    clearTimeout(timer)
    events.opened()
  })
  socket.on('error', (error: NodeJS.ErrnoException) => {
    reason = error.code ?? error.message
  })
  socket.once('close', () => {
    clearTimeout(timer)
    events.closed(reason)
  })
  return socket
}
