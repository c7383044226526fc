// Serves grpc.reflection, with which tools discover the services.
// On when `grpc.reflection` is set. It requires a token like every other method, and every request
// after the first costs a credit.
import { createRequire } from 'node:module'
import protobuf from 'protobufjs'
import type { GrpcMethod } from '../../base/transport/grpc.ts'
import type { GrpcStatus, GrpcStream } from '../../base/transport/grpc-stream.ts'
import { framed, grpcCode } from '../../base/transport/grpc-stream.ts'
import type { Codec } from '../../streams/geyser/codec.ts'
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

// Describes our .proto files as FileDescriptorProto, the form that reflection clients read.
// Thread: main, once, and only when reflection is on. protobufjs can do this too, but leaves out
// imports and names map entries in a way that other readers refuse.

export interface DescribedFile {
  readonly name: string
  readonly imports: readonly string[]
  readonly bytes: Buffer
  /** Full names of everything the file declares. */
  readonly symbols: readonly string[]
}

/** Numbers of FieldDescriptorProto.Type. */
const scalarTypes: Readonly<Record<string, number>> = {
  double: 1,
  float: 2,
  int64: 3,
  uint64: 4,
  int32: 5,
  fixed64: 6,
  fixed32: 7,
  bool: 8,
  string: 9,
  bytes: 12,
  uint32: 13,
}
const messageType = 11
const enumType = 14
const optional = 1
const repeated = 3

/** Every file that the root was loaded from, in no order. */
export function describeFiles(root: protobuf.Root): DescribedFile[] {
  const declared = new Map<string, protobuf.ReflectionObject[]>()
  const visit = (namespace: protobuf.NamespaceBase) => {
    for (const object of namespace.nestedArray) {
      const isDeclaration =
        object instanceof protobuf.Type ||
        object instanceof protobuf.Enum ||
        object instanceof protobuf.Service
      if (!isDeclaration && object instanceof protobuf.Namespace) visit(object)
      if (!isDeclaration) continue
      const name = fileOf(object)
      declared.set(name, [...(declared.get(name) ?? []), object])
    }
  }
  visit(root)
  const schema = createRequire(import.meta.url).resolve(
    'protobufjs/google/protobuf/descriptor.proto',
  )
  const type = new protobuf.Root()
    .loadSync(schema)
    .lookupType('google.protobuf.FileDescriptorProto')
  const encode = (file: object) => Buffer.from(type.encode(type.fromObject(file)).finish())
  return [...declared].map(([name, objects]) => describeFile(name, objects, encode))
}

function describeFile(
  name: string,
  objects: readonly protobuf.ReflectionObject[],
  encode: (file: object) => Buffer,
): DescribedFile {
  const types = objects.filter((object) => object instanceof protobuf.Type)
  const services = objects.filter((object) => object instanceof protobuf.Service)
  const imports = new Set<string>()
  const refer = (object: protobuf.ReflectionObject | null) => {
    if (object !== null && fileOf(object) !== name) imports.add(fileOf(object))
  }
  for (const type of types)
    for (const field of type.fieldsArray) refer(field.resolve().resolvedType)
  const messages = types.map(describeMessage)
  const file = {
    name,
    package: objects[0]!.parent!.fullName.slice(1),
    dependency: [...imports],
    messageType: messages,
    enumType: objects.filter((object) => object instanceof protobuf.Enum).map(describeEnum),
    service: services.map(describeService),
    syntax: 'proto3',
  }
  const symbols = objects.flatMap((object) => [
    object.fullName.slice(1),
    ...(object instanceof protobuf.Service
      ? object.methodsArray.map((method) => `${object.fullName.slice(1)}.${method.name}`)
      : []),
  ])
  return { name, imports: [...imports], bytes: encode(file), symbols }
}

function describeMessage(type: protobuf.Type): object {
  // Choices that were written come first, those that `optional` implies after them.
  const oneofs = [...type.oneofsArray].sort((a, b) => Number(isImplied(a)) - Number(isImplied(b)))
  const maps = type.fieldsArray.filter((field) => field instanceof protobuf.MapField)
  return {
    name: type.name,
    field: type.fieldsArray.map((field) => describeField(field, type, oneofs)),
    oneofDecl: oneofs.map(({ name }) => ({ name: snakeCase(name) })),
    nestedType: [
      ...type.nestedArray.filter((one) => one instanceof protobuf.Type).map(describeMessage),
      ...maps.map(describeEntry),
    ],
    enumType: type.nestedArray.filter((one) => one instanceof protobuf.Enum).map(describeEnum),
  }
}

function describeField(
  field: protobuf.Field,
  type: protobuf.Type,
  oneofs: readonly protobuf.OneOf[],
): object {
  const place = field.partOf === null ? -1 : oneofs.indexOf(field.partOf)
  const choice = place === -1 ? {} : { oneofIndex: place }
  const implied = field.partOf !== null && isImplied(field.partOf) ? { proto3Optional: true } : {}
  const shape =
    field instanceof protobuf.MapField
      ? { type: messageType, typeName: `${type.fullName}.${entryName(field)}` }
      : typeOf(field)
  return {
    name: snakeCase(field.name),
    jsonName: field.name,
    number: field.id,
    label: field.repeated || field instanceof protobuf.MapField ? repeated : optional,
    ...shape,
    ...choice,
    ...implied,
  }
}

/** A map is a repeated message of key and value. */
function describeEntry(field: protobuf.MapField): object {
  return {
    name: entryName(field),
    field: [
      {
        name: 'key',
        jsonName: 'key',
        number: 1,
        label: optional,
        type: scalarTypes[field.keyType],
      },
      { name: 'value', jsonName: 'value', number: 2, label: optional, ...typeOf(field) },
    ],
    options: { mapEntry: true },
  }
}

function typeOf(field: protobuf.FieldBase): object {
  const { resolvedType } = field.resolve()
  if (resolvedType === null) return { type: scalarTypes[field.type] }
  const type = resolvedType instanceof protobuf.Enum ? enumType : messageType
  return { type, typeName: resolvedType.fullName }
}

function describeEnum({ name, values }: protobuf.Enum): object {
  return {
    name,
    value: Object.entries(values).map(([value, number]) => ({ name: value, number })),
  }
}

function describeService(service: protobuf.Service): object {
  return {
    name: service.name,
    method: service.methodsArray.map((method) => {
      method.resolve()
      return {
        name: method.name,
        inputType: method.resolvedRequestType?.fullName,
        outputType: method.resolvedResponseType?.fullName,
        clientStreaming: method.requestStream === true,
        serverStreaming: method.responseStream === true,
      }
    }),
  }
}

function isImplied(oneof: protobuf.OneOf): boolean {
  return oneof.name.startsWith('_')
}

function entryName(field: protobuf.MapField): string {
  return `${field.name.charAt(0).toUpperCase()}${field.name.slice(1)}Entry`
}

function snakeCase(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
}

/** The path as an import would write it. */
function fileOf(object: protobuf.ReflectionObject): string {
  const path = object.filename ?? object.parent?.filename ?? ''
  const known = path.indexOf('google/protobuf/')
  if (known !== -1) return path.slice(known)
  if (path === '' && object.fullName.startsWith('.google.protobuf.'))
    return `google/protobuf/${object.name.toLowerCase()}.proto`
  return path.slice(path.lastIndexOf('/') + 1)
}
