// Binds libc's batched datagram calls (recvmmsg, sendmmsg). Thread: shred worker (calls may block).
// Where koffi does not load (another system, another libc) `loadLibc` returns null and
// transport/udp.ts is used instead.
//
// The kernel receives addresses of JavaScript memory. Every such buffer is made by `pinned` and
// stays reachable from this module forever: V8 must not collect it while the kernel uses it.
//
//   iovec    16: base u64 | length u64
//   mmsghdr  64: name u64 | name length u32 | - | iovec u64 | iovecs u64 | control u64 |
//                control length u64 | flags i32 | - | bytes received or sent u32 | -
import { endianness } from 'node:os'
import { type IpAddress, parseAddress } from '../cidr.ts'
import { assert, Fault } from '../errors.ts'

export interface Libc {
  socket(family: number, type: number, protocol: number): number
  bind(fd: number, name: Uint8Array, length: number): number
  setsockopt(fd: number, level: number, name: number, value: Uint8Array, length: number): number
  getsockopt(fd: number, level: number, name: number, value: Uint8Array, length: Uint8Array): number
  getsockname(fd: number, name: Uint8Array, length: Uint8Array): number
  close(fd: number): number
  recvmmsg(fd: number, headers: number, count: number, flags: number, timeout: number): number
  sendmmsg(fd: number, headers: number, count: number, flags: number): number
  recvmsg(fd: number, header: number, flags: number): number
  sched_yield(): number
  sched_setaffinity(thread: number, length: number, mask: Uint8Array): number
  getrusage(who: number, usage: number): number
  /** Of the last call that failed. */
  errno(): number
  /** Where pinned memory lies. */
  addressOf(bytes: Uint8Array): number
}

export const iovecBytes = 16
export const headerBytes = 64

// Indexes of 32-bit words in an iovec and in an mmsghdr. Pointers take two words.
export const iovecWords = iovecBytes / 4
export const iovecBaseAt = 0
export const iovecLengthAt = 2
export const headerWords = headerBytes / 4
export const nameAt = 0
export const nameLengthAt = 2
export const iovecsAt = 4
export const iovecCountAt = 6
export const controlAt = 8
export const controlLengthAt = 10
/** Bytes received or sent, after the call. */
export const transferredAt = 14

/** Size reserved for a socket address of either family. */
export const nameBytes = 32
export const errnos = { intr: 4, inval: 22, family: 97, refused: 111 } as const
export const flagsOfCall = { dontWait: 0x40, waitForOne: 0x10000, errorQueue: 0x2000 } as const

const families = { 4: 2, 6: 10 } as const
const datagram = 2
const closeOnExec = 0o2000000
const levelSocket = 1
const option = { sendBuffer: 7, receiveBuffer: 8, receiveTimeout: 20 } as const
const levelIp = 0
const levelIpv6 = 41
const optionReceiveErrors = { 4: 11, 6: 25 } as const
const optionV6Only = 26

/** All memory whose address the kernel may have. Never emptied. */
const reachable: Uint8Array[] = []

export async function loadLibc(): Promise<Libc | null> {
  if (process.platform !== 'linux' || endianness() !== 'LE') return null
  try {
    const { default: koffi } = await import('koffi')
    const lib = koffi.load('libc.so.6')
    // Reason for the casts: koffi's functions are untyped; the prototypes give their types.
    const f = (prototype: string) => lib.func(prototype) as never
    return {
      socket: f('int socket(int, int, int)'),
      bind: f('int bind(int, void *, uint32)'),
      setsockopt: f('int setsockopt(int, int, int, void *, uint32)'),
      getsockopt: f('int getsockopt(int, int, int, void *, void *)'),
      getsockname: f('int getsockname(int, void *, void *)'),
      close: f('int close(int)'),
      // Addresses as plain numbers: no wrapper object and no BigInt for each call.
      recvmmsg: f('int recvmmsg(int, uint64, uint32, int, uint64)'),
      sendmmsg: f('int sendmmsg(int, uint64, uint32, int)'),
      recvmsg: f('int64 recvmsg(int, uint64, int)'),
      sched_yield: f('int sched_yield()'),
      sched_setaffinity: f('int sched_setaffinity(int, size_t, void *)'),
      getrusage: f('int getrusage(int, uint64)'),
      errno: () => koffi.errno(),
      addressOf: (bytes) => Number(koffi.address(bytes)),
    }
  } catch {
    return null
  }
}

/** Memory whose address the kernel may use: shared, so it never moves, and never collected. */
export function pinned(bytes: number): Uint8Array {
  const memory = new Uint8Array(new SharedArrayBuffer(bytes))
  reachable.push(memory)
  return memory
}

export interface SocketOptions {
  readonly host: string
  readonly port: number
  /** Requested from the kernel, which grants what its limits allow. */
  readonly bufferBytes: number
  /** Timeout of a receive. */
  readonly timeoutMs: number
  /** Whether port-unreachable errors are queued for `MSG_ERRQUEUE`. */
  readonly keepsErrors: boolean
  /** Whether an IPv6 socket leaves IPv4 to another socket on the same port. */
  readonly isV6Only: boolean
}

/** Opens and binds a datagram socket. Throws a Fault when the address cannot be bound. */
export function openSocket(libc: Libc, options: SocketOptions): number {
  const address = parseAddress(options.host)
  assert(address !== null, 'a socket is bound to a literal address')
  const { family } = address
  const fd = libc.socket(families[family], datagram | closeOnExec, 0)
  if (fd < 0) throw new Fault('udp-socket', `cannot open a UDP socket (errno ${libc.errno()})`)
  const word = (value: number) => Buffer.from(Uint32Array.of(value).buffer)
  libc.setsockopt(fd, levelSocket, option.receiveBuffer, word(options.bufferBytes), 4)
  libc.setsockopt(fd, levelSocket, option.sendBuffer, word(options.bufferBytes), 4)
  const wait = BigInt64Array.of(
    BigInt(Math.floor(options.timeoutMs / 1000)),
    BigInt(Math.round((options.timeoutMs % 1000) * 1000)),
  )
  libc.setsockopt(fd, levelSocket, option.receiveTimeout, Buffer.from(wait.buffer), 16)
  if (family === 6) libc.setsockopt(fd, levelIpv6, optionV6Only, word(options.isV6Only ? 1 : 0), 4)
  if (options.keepsErrors) {
    const level = family === 4 ? levelIp : levelIpv6
    libc.setsockopt(fd, level, optionReceiveErrors[family], word(1), 4)
  }
  const name = new Uint8Array(nameBytes)
  const length = writeName(name, 0, address, options.port)
  if (libc.bind(fd, Buffer.from(name), length) === 0) return fd
  const errno = libc.errno()
  libc.close(fd)
  throw new Fault(
    'udp-bind',
    `cannot listen on UDP ${options.host} port ${options.port} (errno ${errno}): ` +
      'is the port in use, or the address not of this machine?',
  )
}

export function boundPort(libc: Libc, fd: number): number {
  const name = Buffer.alloc(nameBytes)
  libc.getsockname(fd, name, Buffer.from(Uint32Array.of(nameBytes).buffer))
  return name.readUInt16BE(2)
}

/** Size of the receive buffer that the kernel granted. */
export function grantedBytes(libc: Libc, fd: number): number {
  const value = Buffer.alloc(4)
  libc.getsockopt(fd, levelSocket, option.receiveBuffer, value, Buffer.from([4, 0, 0, 0]))
  return value.readUInt32LE(0)
}

/** Writes a socket address and returns its length. */
export function writeName(
  bytes: Uint8Array,
  at: number,
  address: Pick<IpAddress, 'family' | 'words'>,
  port: number,
): number {
  const view = new DataView(bytes.buffer, bytes.byteOffset)
  view.setUint16(at, families[address.family], true)
  view.setUint16(at + 2, port)
  if (address.family === 4) {
    view.setUint32(at + 4, address.words[3])
    return 16
  }
  for (const [index, word] of address.words.entries()) view.setUint32(at + 8 + index * 4, word)
  return 28
}

/** Writes an address as the two halves of a pointer. */
export function writePointer(words: Uint32Array, at: number, address: number): void {
  // Stores of a Uint32Array keep the low 32 bits: no slow remainder of two doubles.
  words[at] = address
  words[at + 1] = address / 2 ** 32
}
