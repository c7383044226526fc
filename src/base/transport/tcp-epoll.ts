// TCP connections of a client by epoll, send and recv of libc. Thread: load (calls may block).
// A socket of Node costs three times the CPU for each small request. Where koffi does not load
// (another system, another libc) `loadEpoll` returns null and Node's sockets are used instead.
//
//   epoll_event: events u32 | fd i32 | - u32   (x64: packed, 12 bytes)
//                events u32 | - | fd i32 | -   (others: 16 bytes)
import { endianness } from 'node:os'
import type { IpAddress } from '../cidr.ts'
import { assert } from '../errors.ts'
import { nameBytes, pinned, writeName } from './udp-batch.ts'

export interface EpollEvents {
  opened(): void
  /** `bytes` up to `count`; the buffer is used again for the next read. */
  read(bytes: Buffer, count: number): void
  /** Called once, also when the connection never opened; not after `close`. */
  closed(reason: string): void
}

/** Bytes in memory that the kernel may read. */
export interface PinnedBytes {
  readonly address: number
  readonly length: number
}

interface Calls {
  socket(family: number, type: number, protocol: number): number
  connect(fd: number, name: Uint8Array, length: number): number
  setsockopt(fd: number, level: number, name: number, value: Uint8Array, length: number): number
  getsockopt(fd: number, level: number, name: number, value: Uint8Array, length: Uint8Array): number
  close(fd: number): number
  epoll_create1(flags: number): number
  epoll_ctl(epoll: number, operation: number, fd: number, event: Uint8Array): number
  /** The last but one argument is a timespec by its address. */
  wait(epoll: number, events: number, count: number, timeout: number, mask: number): number
  send(fd: number, bytes: number, length: number, flags: number): number
  recv(fd: number, bytes: number, length: number, flags: number): number
  errno(): number
  addressOf(bytes: Uint8Array): number
}

interface Connection {
  readonly events: EpollEvents
  isOpen: boolean
  /** What the kernel did not take at once. */
  unsent: PinnedBytes | null
}

const families = { 4: 2, 6: 10 } as const
const streamNonBlocking = 1 | 0o4000 | 0o2000000
const level = { socket: 1, tcp: 6 } as const
const option = { error: 4, noDelay: 1 } as const
const operation = { add: 1, change: 3 } as const
const flag = { input: 1, output: 4 } as const
const sendFlags = 0x4000 | 0x40
const receiveFlags = 0x40
const errnos = { intr: 4, again: 11, inProgress: 115 } as const
const names: Readonly<Record<number, string>> = {
  101: 'ENETUNREACH',
  104: 'ECONNRESET',
  110: 'ETIMEDOUT',
  111: 'ECONNREFUSED',
  113: 'EHOSTUNREACH',
}
const isPacked = process.arch === 'x64'
const eventBytes = isPacked ? 12 : 16
const fdAt = isPacked ? 4 : 8
const eventsMax = 256
const readBytes = 64 * 1024
const scratchBytes = 64 * 1024
const nsPerMs = 1e6

/** Null where the calls of libc are not available. */
export async function loadEpoll(): Promise<EpollClient | null> {
  if (process.platform !== 'linux' || endianness() !== 'LE') return null
  try {
    const { default: koffi } = await import('koffi')
    const lib = koffi.load('libc.so.6')
    // Reason for the casts: koffi's functions are untyped; the prototypes give their types.
    const f = (prototype: string) => lib.func(prototype) as never
    return new EpollClient({
      socket: f('int socket(int, int, int)'),
      connect: f('int connect(int, void *, uint32)'),
      setsockopt: f('int setsockopt(int, int, int, void *, uint32)'),
      getsockopt: f('int getsockopt(int, int, int, void *, void *)'),
      close: f('int close(int)'),
      epoll_create1: f('int epoll_create1(int)'),
      epoll_ctl: f('int epoll_ctl(int, int, int, void *)'),
      // Sleeps to the microsecond; epoll_wait only knows whole milliseconds.
      wait: f('int epoll_pwait2(int, uint64, int, uint64, uint64)'),
      send: f('int64 send(int, uint64, uint64, int)'),
      recv: f('int64 recv(int, uint64, uint64, int)'),
      errno: () => koffi.errno(),
      addressOf: (bytes) => Number(koffi.address(bytes)),
    })
  } catch {
    return null
  }
}

export class EpollClient {
  readonly #calls: Calls
  readonly #epoll: number
  /** By descriptor: small numbers, so an array is faster than a map. */
  readonly #connections: (Connection | undefined)[] = []
  readonly #readAt: number
  readonly #reads: Buffer
  readonly #eventsAt: number
  readonly #events: DataView
  readonly #timeAt: number
  /** A timespec as four words: seconds and nanoseconds, each low and high. */
  readonly #time: Int32Array
  readonly #event = new Uint8Array(eventBytes)
  readonly #scratch = pinned(scratchBytes)
  readonly #scratchAt: number

  constructor(calls: Calls) {
    this.#calls = calls
    this.#epoll = calls.epoll_create1(0o2000000)
    const reads = pinned(readBytes)
    this.#readAt = calls.addressOf(reads)
    this.#reads = Buffer.from(reads.buffer)
    const events = pinned(eventBytes * eventsMax)
    this.#eventsAt = calls.addressOf(events)
    this.#events = new DataView(events.buffer)
    const time = pinned(16)
    this.#timeAt = calls.addressOf(time)
    this.#scratchAt = calls.addressOf(this.#scratch)
    this.#time = new Int32Array(time.buffer)
  }

  pin(bytes: Uint8Array): PinnedBytes {
    const memory = pinned(bytes.length)
    memory.set(bytes)
    return { address: this.#calls.addressOf(memory), length: bytes.length }
  }

  /** Starts to connect; returns the descriptor, for `send` after `opened`. */
  connect(address: IpAddress, port: number, events: EpollEvents): number {
    const calls = this.#calls
    const fd = calls.socket(families[address.family], streamNonBlocking, 0)
    calls.setsockopt(fd, level.tcp, option.noDelay, Uint8Array.of(1, 0, 0, 0), 4)
    const name = new Uint8Array(nameBytes)
    const nameLength = writeName(name, 0, address, port)
    this.#connections[fd] = { events, isOpen: false, unsent: null }
    const failed = calls.connect(fd, name, nameLength) !== 0
    const errno = failed ? calls.errno() : 0
    if (failed && errno !== errnos.inProgress) queueMicrotask(() => this.#lose(fd, errno))
    else this.#watch(fd, operation.add, flag.output)
    return fd
  }

  send(fd: number, bytes: PinnedBytes): void {
    const connection = this.#connections[fd]
    if (connection === undefined) return
    // The peer has not read what was sent before: it is of no use any more.
    if (connection.unsent !== null) return void this.#lose(fd, 0)
    const sent = this.#calls.send(fd, bytes.address, bytes.length, sendFlags)
    if (sent === bytes.length) return
    const errno = sent < 0 ? this.#calls.errno() : 0
    if (sent < 0 && errno !== errnos.again && errno !== errnos.intr) {
      this.#lose(fd, errno)
      return
    }
    const done = Math.max(0, sent)
    connection.unsent = { address: bytes.address + done, length: bytes.length - done }
    this.#watch(fd, operation.change, flag.input | flag.output)
  }

  /** Sends short bytes that are not pinned; a peer that does not take them whole is closed. */
  sendBytes(fd: number, bytes: Uint8Array): void {
    assert(bytes.length <= scratchBytes, 'the bytes fit into the scratch memory')
    this.#scratch.set(bytes)
    this.send(fd, { address: this.#scratchAt, length: bytes.length })
    if (this.#connections[fd]?.unsent != null) this.#lose(fd, 0)
  }

  /** Waits up to `timeoutMs` and handles what arrived; returns the number of events. */
  poll(timeoutMs: number): number {
    this.#time[0] = Math.floor(timeoutMs / 1000)
    this.#time[2] = Math.floor((timeoutMs % 1000) * nsPerMs)
    const count = this.#calls.wait(this.#epoll, this.#eventsAt, eventsMax, this.#timeAt, 0)
    for (let index = 0; index < count; index += 1) {
      const fd = this.#events.getInt32(index * eventBytes + fdAt, true)
      const connection = this.#connections[fd]
      if (connection === undefined) continue
      if (!connection.isOpen) this.#opened(fd, connection)
      else this.#ready(fd, connection)
    }
    return count
  }

  /** False when it was closed before. */
  close(fd: number): boolean {
    if (this.#connections[fd] === undefined) return false
    this.#connections[fd] = undefined
    this.#calls.close(fd)
    return true
  }

  /** Closes every connection. */
  end(): void {
    for (const fd of this.#connections.keys()) this.close(fd)
    this.#calls.close(this.#epoll)
  }

  #opened(fd: number, connection: Connection): void {
    const value = new Uint8Array(4)
    const length = Uint8Array.of(4, 0, 0, 0)
    this.#calls.getsockopt(fd, level.socket, option.error, value, length)
    const errno = new DataView(value.buffer).getInt32(0, true)
    if (errno !== 0) {
      this.#lose(fd, errno)
      return
    }
    connection.isOpen = true
    this.#watch(fd, operation.change, flag.input)
    connection.events.opened()
  }

  #ready(fd: number, connection: Connection): void {
    if (connection.unsent !== null) {
      const rest = connection.unsent
      connection.unsent = null
      this.#watch(fd, operation.change, flag.input)
      this.send(fd, rest)
    }
    const got = this.#calls.recv(fd, this.#readAt, readBytes, receiveFlags)
    if (got > 0) {
      connection.events.read(this.#reads, got)
      return
    }
    const errno = got < 0 ? this.#calls.errno() : 0
    if (errno !== errnos.again && errno !== errnos.intr) this.#lose(fd, errno)
  }

  #lose(fd: number, errno: number): void {
    const connection = this.#connections[fd]
    this.close(fd)
    const reason = errno === 0 ? 'it closed the connection' : (names[errno] ?? `errno ${errno}`)
    connection?.events.closed(reason)
  }

  #watch(fd: number, how: number, flags: number): void {
    const view = new DataView(this.#event.buffer)
    view.setUint32(0, flags, true)
    view.setInt32(fdAt, fd, true)
    this.#calls.epoll_ctl(this.#epoll, how, fd, this.#event)
  }
}
