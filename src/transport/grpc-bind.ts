// Binds a gRPC server to an address, in plain text or with a certificate that may be renewed.
// Thread: main.
import { experimental, type Server, ServerCredentials } from '@grpc/grpc-js'
import { Fault } from '../base/errors.ts'

/** A certificate pair that was checked, with notification of changes. */
export interface GrpcCertificates {
  readonly cert: Buffer
  readonly key: Buffer
  onChange(listener: () => void): () => void
}

export function bindGrpc(
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
