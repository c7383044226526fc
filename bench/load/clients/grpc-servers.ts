// The servers of the grpc-stream bench: our endpoint, plain grpc-js, and a bare http2 writer.
// Thread: a process of its own for each. All send as fast as the readers take it.
import { createServer } from 'node:http2'
import type { AddressInfo } from 'node:net'
import { Server, ServerCredentials, type ServerDuplexStream } from '@grpc/grpc-js'
import { accountUpdate } from '../../../src/chain/solana/received-batch.ts'
import { Heads, openSolanaHub, publishUpdate } from '../../../src/streams/geyser/hub.ts'
import { serveBench } from '../../../test/testkit/process.ts'
import { openGrpcEndpoint } from './grpc-endpoint.ts'
import { createdAtMs, firstSlot, framesOf, messageOf } from './grpc-message.ts'

export interface Opened {
  readonly port: number
  readonly token: string
}

const host = '127.0.0.1'
/** What one round gives to each stream, rounds in a turn, and what may wait for the streams. */
const turnBytes = 64 * 1024
const roundsMax = 4
const waitingBytes = 64 * 1024
const waitingBytesMin = 512 * 1024
const joinedMessages = 32

serveBench({ ours: openOurs, plain: openPlain, http2: openHttp2 })

/** The whole product: token, budget, filters, groups, frames, queues. */
async function openOurs(length: number): Promise<Opened> {
  const hub = openSolanaHub({ replaySlots: 1, replayBytesMax: 1 })
  const { port, token, meters, streams } = await openGrpcEndpoint({
    hub,
    heads: new Heads(hub),
    isUp: () => true,
    watch: () => () => {},
    solanaVersion: () => '',
  })
  let slot = firstSlot
  const flood = () => {
    if (streams() === 0) return void setTimeout(flood, 5)
    const most = Math.max(streams() * waitingBytes, waitingBytesMin)
    for (let round = 0; round < roundsMax && meters.backlog.bytes() < most; round++) {
      // A slot of its own for each round: the hub then lets go of what it kept for the last one.
      const update = accountUpdate({ slot: slot++, createdAtMs }, messageOf(length))
      for (let bytes = 0; bytes < turnBytes; bytes += length + 5) publishUpdate(hub, update)
      hub.abandon(update.slot)
    }
    setImmediate(flood)
  }
  flood()
  return { port, token }
}

/** `call.write` with bytes that are encoded already: the library's own way at its best. */
function openPlain(length: number): Promise<Opened> {
  const message = framesOf(length, 1).subarray(5)
  const identity = (bytes: Buffer) => bytes
  const server = new Server()
  const definition = {
    path: '/geyser.Geyser/Subscribe',
    requestStream: true,
    responseStream: true,
    requestSerialize: identity,
    requestDeserialize: identity,
    responseSerialize: identity,
    responseDeserialize: identity,
  }
  const subscribe = (call: ServerDuplexStream<Buffer, Buffer>) => {
    let isOpen = true
    const pump = () => {
      let isTaken = isOpen
      for (let count = 0; count < 64 && isTaken; count++) isTaken = call.write(message)
      if (isTaken) setImmediate(pump)
    }
    call.on('drain', pump)
    call.on('data', () => {})
    call.on('error', () => {})
    call.on('cancelled', () => {
      isOpen = false
    })
    pump()
  }
  server.addService({ Subscribe: definition }, { Subscribe: subscribe })
  return new Promise((resolve, reject) => {
    server.bindAsync(`${host}:0`, ServerCredentials.createInsecure(), (error, port) => {
      if (error === null) resolve({ port, token: '' })
      else reject(error)
    })
  })
}

/** The same bytes, 32 messages joined beforehand, on node:http2 and nothing else. */
function openHttp2(length: number): Promise<Opened> {
  const frames = framesOf(length, joinedMessages)
  const server = createServer()
  server.on('stream', (stream) => {
    stream.respond({ ':status': 200, 'content-type': 'application/grpc' })
    stream.resume()
    stream.on('error', () => {})
    const pump = () => {
      while (!stream.destroyed && stream.write(frames));
    }
    stream.on('drain', pump)
    pump()
  })
  return new Promise((resolve) => {
    server.listen(0, host, () => {
      resolve({ port: (server.address() as AddressInfo).port, token: '' })
    })
  })
}
