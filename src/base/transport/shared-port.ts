// Opens a TCP socket that several processes of one user may listen on, with SO_REUSEPORT: the
// kernel spreads new connections evenly over them. Thread: main, at start.
// Node's own `reusePort` exists from Node 22.12 on, so the socket is made with libc calls.
import { parseAddress } from '../cidr.ts'
import { Fault } from '../errors.ts'
import { boundPort, loadLibc, nameBytes, writeName } from './udp-batch.ts'

const families = { 4: 2, 6: 10 } as const
const stream = 1
// Without close-on-exec a child process would keep accepting for a gateway that has died.
const closeOnExec = 0o2000000
const nonBlocking = 0o4000
const levelSocket = 1
const option = { reuseAddress: 2, reusePort: 15 } as const
const addressInUse = 98

export interface SharedSocket {
  /** Bound and not yet listening; whoever takes it closes it. */
  readonly fd: number
  readonly port: number
}

/** Throws a Fault when the address cannot be bound. */
export async function openSharedSocket(at: {
  readonly host: string
  readonly port: number
}): Promise<SharedSocket> {
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
