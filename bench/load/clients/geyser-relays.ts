// The relays of the geyser-relay bench: ours, from a node to the endpoint, and the plain one
// that decodes and encodes with protobufjs on grpc-js. Thread: a process of its own for each.
import {
  Client,
  credentials,
  Server,
  ServerCredentials,
  type ServerDuplexStream,
} from '@grpc/grpc-js'
import { loadCodec } from '../../../src/streams/geyser/codec.ts'
import { serveBench } from '../../../test/testkit/process.ts'
import { openSetChains } from './bench-chains.ts'
import { openGrpcEndpoint } from './grpc-endpoint.ts'

export interface OpenedRelay {
  readonly port: number
  readonly token: string
}

serveBench({
  ours: openOurs,
  plain: openPlain,
  /** Microseconds of CPU that this process has used. */
  cpu() {
    const { user, system } = process.cpuUsage()
    return user + system
  },
})

async function openOurs(nodePort: number): Promise<OpenedRelay> {
  const { port, token } = await openGrpcEndpoint(openSetChains(nodePort).of('default')!)
  return { port, token }
}

/** As documented: every update becomes an object and is written to each call. */
async function openPlain(nodePort: number): Promise<OpenedRelay> {
  const { root } = loadCodec()
  const updates = root.lookupType('geyser.SubscribeUpdate')
  const requests = root.lookupType('geyser.SubscribeRequest')
  const encode = (value: object) => Buffer.from(updates.encode(value).finish())
  const decode = (bytes: Buffer) => updates.decode(bytes) as unknown as { account?: object }
  const calls = new Set<ServerDuplexStream<object, object>>()
  const client = new Client(`127.0.0.1:${nodePort}`, credentials.createInsecure())
  const source = client.makeBidiStreamRequest(
    '/geyser.Geyser/Subscribe',
    (value: object) => Buffer.from(requests.encode(value).finish()),
    decode,
  )
  source.on('error', () => {})
  source.write({ accounts: { s: {} } })
  source.on('data', (update: { account?: object; createdAt?: object }) => {
    if (!update.account) return
    const { account, createdAt } = update
    for (const call of calls)
      if (!call.write({ filters: ['a'], account, createdAt })) source.pause()
  })
  const server = new Server()
  const definition = {
    path: '/geyser.Geyser/Subscribe',
    requestStream: true,
    responseStream: true,
    requestSerialize: encode,
    requestDeserialize: (bytes: Buffer) => requests.decode(bytes),
    responseSerialize: encode,
    responseDeserialize: decode,
  }
  const subscribe = (call: ServerDuplexStream<object, object>) => {
    calls.add(call)
    call.on('drain', () => source.resume())
    call.on('data', () => {})
    call.on('error', () => {})
    call.on('cancelled', () => {
      calls.delete(call)
      source.resume()
    })
  }
  server.addService({ Subscribe: definition }, { Subscribe: subscribe } as never)
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, bound) => {
      if (error === null) resolve(bound)
      else reject(error)
    })
  })
  return { port, token: '' }
}
