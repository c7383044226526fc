// Binds a gRPC server to an address, in plain text or with a certificate that may be renewed, alone
// or beside other processes on the same port; or to a Unix socket.

import { createServer, type Server as NetServer } from 'node:net'
import { experimental, type Server, ServerCredentials } from '@grpc/grpc-js'
import { Fault } from '../errors.ts'
import { faultReport, type Log } from '../telemetry/log.ts'
import type { ListenAddress } from './listen-address.ts'
import { openSharedSocket, probePort, resolvePort } from './listen-address.ts'
import { listenAtPath } from './unix-socket.ts'

/** A certificate pair that was checked, with notification of changes. */
export interface GrpcCertificates {
  readonly cert: Buffer
  readonly key: Buffer
  onChange(listener: () => void): () => void
}

/** For lack of descriptors: its client sees the close. */
export const notAccepted = 'a connection could not be accepted'

export interface GrpcBinding {
  readonly port: number
  /** Accepts no more connections, drains the open ones and closes what is left after the grace. */
  drain(graceMs: number): void
}

type At = ListenAddress & { readonly path?: string | undefined; readonly log: Log }

export async function bindGrpc(
  server: Server,
  at: At,
  certificates: GrpcCertificates | null,
): Promise<GrpcBinding> {
  const { path, log } = at
  if (path !== undefined)
    return inject(server, { certificates: null, log }, async (listener) => {
      await listenAtPath(listener, path, 'listen')
      return 0
    })
  if (at.isShared === true) return bindShared(server, at, certificates)
  const host = at.host.includes(':') ? `[${at.host}]` : at.host
  // Probed first for its error message: the library's own has no advice.
  const asked = at.port === 0 ? 0 : await resolvePort(at, 'grpc')
  const port = await bindAlone(server, `${host}:${asked}`, certificates)
  return { port, drain: (graceMs) => server.drain(`${host}:${port}`, graceMs) }
}

/** The library cannot share a port. */
async function bindShared(
  server: Server,
  at: At,
  certificates: GrpcCertificates | null,
): Promise<GrpcBinding> {
  const { fd, port } = await openSharedSocket(at).catch(async (error: unknown) => {
    await probePort(at, 'grpc')
    throw error
  })
  return inject(server, { certificates, log: at.log }, async (listener) => {
    await new Promise<void>((resolve, reject) => {
      listener.once('error', reject)
      listener.listen({ fd }, resolve)
    })
    return port
  })
}

/** A listener of our own accepts, and hands the connections to the library. */
async function inject(
  server: Server,
  { certificates, log }: { certificates: GrpcCertificates | null; log: Log },
  listen: (listener: NetServer) => Promise<number>,
): Promise<GrpcBinding> {
  const injector = server.createConnectionInjector(credentialsOf(certificates))
  // As the HTTP/2 server would: it reads the socket from the start, without delay of small writes.
  const listener = createServer({ noDelay: true, pauseOnConnect: false }, (socket) =>
    injector.injectConnection(socket),
  )
  const port = await listen(listener)
  listener.on('error', faultReport(log, notAccepted))
  return {
    port,
    drain(graceMs) {
      listener.close()
      injector.drain(graceMs)
    },
  }
}

function bindAlone(
  server: Server,
  address: string,
  certificates: GrpcCertificates | null,
): Promise<number> {
  return new Promise((resolve, reject) => {
    server.bindAsync(address, credentialsOf(certificates), (error, port) => {
      if (error === null) return resolve(port)
      reject(new Fault('listen', `grpc: cannot listen on ${address}`, { cause: error }))
    })
  })
}

/** With certificates the library uses a provider, which notifies it of each new pair. */
function credentialsOf(certificates: GrpcCertificates | null): ServerCredentials {
  if (certificates === null) return ServerCredentials.createInsecure()
  const watches = new Map<unknown, () => void>()
  type Listen = Parameters<experimental.CertificateProvider['addIdentityCertificateListener']>[0]
  const provider: experimental.CertificateProvider = {
    addCaCertificateListener() {},
    removeCaCertificateListener() {},
    addIdentityCertificateListener(listener: Listen) {
      const notify = () =>
        listener({ certificate: certificates.cert, privateKey: certificates.key })
      watches.set(listener, certificates.onChange(notify))
      // Deferred, as the library registers itself only after this call.
      process.nextTick(notify)
    },
    removeIdentityCertificateListener(listener: Listen) {
      watches.get(listener)?.()
      watches.delete(listener)
    },
  }
  // Reason for the cast: the declaration swaps the names of the two providers; the code takes the
  // identity first, and null for no client certificates.
  const create = experimental.createCertificateProviderServerCredentials as unknown as (
    identity: experimental.CertificateProvider,
    ca: null,
    requireClientCertificate: boolean,
  ) => ServerCredentials
  return create(provider, null, false)
}
