// Serves grpc.reflection, with which tools discover the services.
// On when `grpc.reflection` is set. It requires a token like every other method, and every request
// after the first costs a credit.

import type { GrpcMethod } from '../../base/transport/grpc.ts'
import { type GrpcStatus, grpcCode } from '../../base/transport/grpc-status.ts'
import { framed, type GrpcStream } from '../../base/transport/grpc-stream.ts'
import type { Codec } from '../../streams/geyser/codec.ts'
import { describeFiles } from './descriptors.ts'
import { tooSlow } from './health.ts'

interface ReflectionRequest {
  readonly host: string
  readonly messageRequest?:
    | 'fileByFilename'
    | 'fileContainingSymbol'
    | 'fileContainingExtension'
    | 'allExtensionNumbersOfType'
    | 'listServices'
  readonly fileByFilename: string
  readonly fileContainingSymbol: string
  readonly allExtensionNumbersOfType: string
}

const packages = ['grpc.reflection.v1', 'grpc.reflection.v1alpha']
const offered = ['geyser.Geyser', 'grpc.health.v1.Health', 'grpc.reflection.v1.ServerReflection']

const requests = { messageBytesMax: 4_096 }
/** An answer is some 20 kB; a stream that leaves more of them unread than this is ended. */
const unsentBytesMax = 512 * 1_024

/** `charge` takes a credit; it returns a status when the budget is spent. */
export function reflectionMethods<C>(
  codec: Codec,
  charge: (caller: C) => GrpcStatus | null,
): GrpcMethod<C>[] {
  const answer = answerer(codec)
  return packages.map((name) => ({
    kind: 'stream',
    path: `/${name}.ServerReflection/ServerReflectionInfo`,
    requests,
    open(stream: GrpcStream, caller: C) {
      let isPaid = true
      return {
        message(bytes: Buffer) {
          const unpaid = isPaid ? null : charge(caller)
          isPaid = false
          const refusal = stream.unsentBytes > unsentBytesMax ? tooSlow : unpaid
          if (refusal !== null) {
            stream.end(refusal)
            return
          }
          const request = codec.decode<ReflectionRequest>(
            'grpc.reflection.v1.ServerReflectionRequest',
            bytes,
          )
          if (request === null) stream.end(noRequest)
          else stream.write(framed(answer(request)))
        },
        halfClosed: () => stream.end({ code: grpcCode.ok, details: '' }),
        drained() {},
        closed() {},
      }
    },
  }))
}

const noRequest: GrpcStatus = {
  code: grpcCode.invalidArgument,
  details: 'not a reflection request',
}
function answerer(codec: Codec): (request: ReflectionRequest) => Uint8Array {
  const files = describeFiles(codec.root)
  const byName = new Map(files.map((file) => [file.name, file]))
  const bySymbol = new Map(files.flatMap((file) => file.symbols.map((one) => [one, file])))
  /** The file and everything it imports. */
  const withImports = (name: string, seen = new Set<string>()): Buffer[] => {
    const file = byName.get(name)
    if (file === undefined || seen.has(name)) return []
    seen.add(name)
    return [file.bytes, ...file.imports.flatMap((inner) => withImports(inner, seen))]
  }
  const found = (name: string | undefined) => {
    const fileDescriptorProto = name === undefined ? [] : withImports(name)
    if (fileDescriptorProto.length > 0) return { fileDescriptorResponse: { fileDescriptorProto } }
    return { errorResponse: { errorCode: grpcCode.notFound, errorMessage: 'not found' } }
  }
  const responseTo = (request: ReflectionRequest): object => {
    switch (request.messageRequest) {
      case 'listServices':
        return { listServicesResponse: { service: offered.map((name) => ({ name })) } }
      case 'fileByFilename':
        return found(request.fileByFilename)
      case 'fileContainingSymbol':
        return found(bySymbol.get(request.fileContainingSymbol)?.name)
      case 'allExtensionNumbersOfType': {
        const baseTypeName = request.allExtensionNumbersOfType
        return { allExtensionNumbersResponse: { baseTypeName, extensionNumber: [] } }
      }
      default:
        return found(undefined)
    }
  }
  return (request) =>
    codec.encode('grpc.reflection.v1.ServerReflectionResponse', {
      validHost: request.host,
      originalRequest: request,
      ...responseTo(request),
    })
}
