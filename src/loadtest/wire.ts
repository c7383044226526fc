// Byte connections to the endpoint under load, by libc where possible, else by Node. Thread: load.
import { lookup } from 'node:dns/promises'
import { connect as connectTcp, isIP } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { type IpAddress, parseAddress } from '../base/cidr.ts'
import { type EpollClient, loadEpoll, type PinnedBytes } from '../base/transport/tcp-epoll.ts'

export interface WireEvents {
  opened(): void
  /** `bytes` up to `count`; the buffer is used again for the next read. */
  read(bytes: Buffer, count: number): void
  /** Called once, also when the connection never opened. */
  closed(reason: string): void
}

/** Bytes that are sent often. */
export interface Prepared {
  readonly bytes: Buffer
  readonly pinned: PinnedBytes | null
}

export interface WireConnection {
  send(prepared: Prepared): void
  /** Sends bytes once. */
  sendBytes(bytes: Buffer): void
  destroy(): void
}

export interface Wire {
  prepare(bytes: Buffer): Prepared
  open(events: WireEvents): WireConnection
  /**
   * Waits up to `timeoutMs` and handles what arrived; returns the number of events. Null where
   * Node's event loop does it.
   */
  readonly poll: ((timeoutMs: number) => number) | null
  end(): void
}

export interface WireTarget {
  readonly url: string
  readonly connectMsMax: number
}

const readBytes = 64 * 1024
const pollStepMs = 1
const tooLate = 'no connection within the time'

/** The fastest wire to a URL; a sentence when its host has no address. */
export async function openWire(target: WireTarget): Promise<Wire | string> {
  const { protocol, hostname } = new URL(target.url)
  const host = hostname.replace(/^\[|\]$/g, '')
  const isTls = protocol === 'https:' || protocol === 'wss:'
  const found = await lookup(host).catch(() => null)
  const address = parseAddress(found?.address ?? '')
  if (address === null) return `the host ${host} has no address`
  const epoll = isTls ? null : await loadEpoll()
  return epoll === null ? nodeWire(target, host, isTls) : epollWire(target, epoll, address)
}

function portOf(url: string, isTls: boolean): number {
  return Number(new URL(url).port || (isTls ? 443 : 80))
}

function epollWire(
  { url, connectMsMax }: WireTarget,
  epoll: EpollClient,
  address: IpAddress,
): Wire {
  const port = portOf(url, false)
  return {
    prepare: (bytes) => ({ bytes, pinned: epoll.pin(bytes) }),
    poll: (timeoutMs) => epoll.poll(timeoutMs),
    end: () => epoll.end(),
    open(events) {
      const timer = setTimeout(() => {
        if (epoll.close(fd)) events.closed(tooLate)
      }, connectMsMax)
      const fd = epoll.connect(address, port, {
        opened: () => {
          clearTimeout(timer)
          events.opened()
        },
        read: (bytes, count) => events.read(bytes, count),
        closed: (reason) => {
          clearTimeout(timer)
          events.closed(reason)
        },
      })
      return {
        send: ({ pinned }) => epoll.send(fd, pinned!),
        sendBytes: (bytes) => epoll.sendBytes(fd, bytes),
        destroy: () => {
          clearTimeout(timer)
          if (epoll.close(fd)) events.closed('closed here')
        },
      }
    },
  }
}

function nodeWire({ url, connectMsMax }: WireTarget, host: string, isTls: boolean): Wire {
  const at = { host, port: portOf(url, isTls), noDelay: true }
  const open = (events: WireEvents): WireConnection => {
    let reason = 'it closed the connection'
    const callback = (count: number, buffer: Uint8Array) => {
      // Reason for the cast: Node hands back the Buffer that was given to it.
      events.read(buffer as Buffer, count)
      return true
    }
    const socket = isTls
      ? connectTls({ ...at, ...(isIP(host) === 0 && { servername: host }) })
      : connectTcp({ ...at, onread: { buffer: Buffer.allocUnsafe(readBytes), callback } })
    if (isTls) socket.on('data', (bytes: Buffer) => events.read(bytes, bytes.length))
    const timer = setTimeout(() => {
      reason = tooLate
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
    return {
      send: ({ bytes }) => socket.write(bytes),
      sendBytes: (bytes) => socket.write(bytes),
      destroy: () => socket.destroy(),
    }
  }
  return { prepare: (bytes) => ({ bytes, pinned: null }), open, poll: null, end() {} }
}

/** Resolves as the promise does, and meanwhile polls a wire that nothing else polls. */
export async function pollUntil<T>(promise: Promise<T>, poll: Wire['poll']): Promise<T> {
  if (poll === null) return promise
  let isDone = false
  const mark = () => {
    isDone = true
  }
  promise.then(mark, mark)
  while (!isDone) {
    poll(pollStepMs)
    await new Promise((resolve) => setImmediate(resolve))
  }
  return promise
}
