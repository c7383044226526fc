// Checks that an endpoint's address and port are free to listen on. Thread: main, at start.
// The native server sets SO_REUSEPORT on explicit ports: a second server would listen without an
// error and share the traffic. So every port is first probed with node:net, which does not.
import { createServer } from 'node:net'
import { Fault } from '../errors.ts'

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
  const where = `${listen.host}:${listen.port}`
  const portKey = listen.portKey ?? `${product}.port`
  if (error.code === 'EADDRINUSE')
    return new Fault(
      'port-taken',
      `${product}: ${where} is taken by another process; stop it or set ${portKey}`,
      { cause: error },
    )
  if (error.code === 'EACCES')
    return new Fault('port-forbidden', `${product}: no permission to listen on ${where}`, {
      cause: error,
    })
  if (error.code === 'EADDRNOTAVAIL' || error.code === 'ENOTFOUND')
    return new Fault(
      'address-absent',
      `${product}: ${listen.host} is not an address of this machine; set ${product}.host`,
      { cause: error },
    )
  return new Fault('port-unusable', `${product}: cannot listen on ${where}`, { cause: error })
}
