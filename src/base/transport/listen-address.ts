// Checks that an endpoint's address and port are free to listen on, and opens shared ones.
// The native server sets SO_REUSEPORT on explicit ports: a second server would listen without an
// error and share the traffic. So every port is first probed with node:net, which does not.
import { createServer } from 'node:net'
import { parseAddress } from '../cidr.ts'
import { Fault } from '../errors.ts'
import { boundPort, loadLibc, nameBytes, writeName } from './udp-batch.ts'

export interface ListenAddress {
  readonly host: string
  readonly port: number
  /** What sets the port, for error messages; `<product>.port` when absent. */
  readonly portKey?: string
  /** Whether other processes of this user may listen on the same port (SO_REUSEPORT). */
  readonly isShared?: boolean | undefined
}

/** Returns the port to listen on: the requested one if it may be used, a free one for port 0. */
export async function resolvePort(listen: ListenAddress, product: string): Promise<number> {
  // Another gateway may listen there; whether something else does, the listen itself shows.
  return listen.isShared === true && listen.port !== 0 ? listen.port : probePort(listen, product)
}

/** Rejects with a fault that explains why nobody else can listen there. */
export function probePort(listen: ListenAddress, product: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer()
    probe.once('error', (error: NodeJS.ErrnoException) => reject(explain(error, listen, product)))
    probe.listen({ host: listen.host, port: listen.port, exclusive: true }, () => {
      const bound = probe.address()
      const port = typeof bound === 'object' && bound !== null ? bound.port : listen.port
      probe.close(() => resolve(port))
    })
  })
}

function explain(error: NodeJS.ErrnoException, listen: ListenAddress, product: string): Fault {
  const { host, port, portKey = `${product}.port` } = listen
  const where = `${host}:${port}`
  const fault = (kind: string, why: string) =>
    new Fault(kind, `${product}: ${why}`, { cause: error })
  if (error.code === 'EADDRINUSE')
    return fault('port-taken', `${where} is taken by another process; stop it or set ${portKey}`)
  if (error.code === 'EACCES') return fault('port-forbidden', `no permission to listen on ${where}`)
  if (error.code === 'EADDRNOTAVAIL' || error.code === 'ENOTFOUND')
    return fault('address-absent', `${host} is not an address of this machine; set ${product}.host`)
  return fault('port-unusable', `cannot listen on ${where}`)
}

// A TCP socket that several processes of one user may listen on, with SO_REUSEPORT: the kernel
// spreads new connections evenly over them.
// Node's own `reusePort` exists from Node 22.12 on, so the socket is made with libc calls.

const families = { 4: 2, 6: 10 } as const
const stream = 1
// Without close-on-exec a child process would keep accepting for a gateway that has died.
const closeOnExec = 0o2000000
const nonBlocking = 0o4000
const levelSocket = 1
const option = { reuseAddress: 2, reusePort: 15 } as const
const addressInUse = 98

interface SharedSocket {
  /** Bound and not yet listening; whoever takes it closes it. */
  readonly fd: number
  readonly port: number
}

/** Throws a Fault when the address cannot be bound. */
export async function openSharedSocket(at: ListenAddress): Promise<SharedSocket> {
  const libc = await loadLibc()
  if (libc === null)
    throw new Fault('listen', 'cluster.sharePorts needs Linux with glibc: set it to false')
  const address = parseAddress(at.host)
  if (address === null)
    throw new Fault('listen', `cluster.sharePorts needs an address instead of ${at.host}`)
  const fd = libc.socket(families[address.family], stream | closeOnExec | nonBlocking, 0)
  if (fd < 0) throw new Fault('listen', `cannot open a TCP socket (errno ${libc.errno()})`)
  const on = Buffer.from(Uint32Array.of(1).buffer)
  libc.setsockopt(fd, levelSocket, option.reuseAddress, on, 4)
  libc.setsockopt(fd, levelSocket, option.reusePort, on, 4)
  const name = new Uint8Array(nameBytes)
  const length = writeName(name, 0, address, at.port)
  if (libc.bind(fd, Buffer.from(name), length) === 0) return { fd, port: boundPort(libc, fd) }
  const errno = libc.errno()
  libc.close(fd)
  const why = errno === addressInUse ? 'is taken by another process' : `fails (errno ${errno})`
  throw new Fault('port-taken', `cannot listen: ${at.host}:${at.port} ${why}`)
}
