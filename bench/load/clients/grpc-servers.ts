// The servers of the grpc-stream bench: our door, grpc-js by the book, and a bare http2 writer.
// Thread: a process of its own for each. All send as fast as the readers take it.
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:http2'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Server, ServerCredentials, type ServerDuplexStream } from '@grpc/grpc-js'
import { Directory } from '../../../src/auth/directory.ts'
import { Gate } from '../../../src/auth/gate.ts'
import { systemClock } from '../../../src/base/clock.ts'
import { openSolanaHub, publishUpdate } from '../../../src/flows/solana.ts'
import { Heads } from '../../../src/flows/solana-heads.ts'
import { accountUpdate } from '../../../src/flows/solana-update.ts'
import { declareGrpcMeters } from '../../../src/products/grpc/meters.ts'
import { startGrpc } from '../../../src/products/grpc/server.ts'
import { declareQuotaMeters } from '../../../src/quota/meters.ts'
import { Quota } from '../../../src/quota/quota.ts'
import { unlimitedPlan } from '../../../src/subscriptions/plans.ts'
import { openStore } from '../../../src/subscriptions/store.ts'
import { silentLog } from '../../../src/telemetry/log.ts'
import { Meters } from '../../../src/telemetry/meters.ts'
import { Addresses } from '../../../src/transport/address.ts'
import { serveBench } from '../../lib/process.ts'
import { createdAtMs, firstSlot, framesOf, messageOf } from './grpc-message.ts'

export interface Opened {
  readonly port: number
  readonly token: string
}

const clock = systemClock
const log = silentLog
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
  const folder = mkdtempSync(join(tmpdir(), 'sluice-bench-'))
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }))
  const store = openStore(folder, { clock })
  const request = { label: 'bench', products: ['bundle'], plan: 'unlimited' }
  const issued = store.add(request, { who: 'bench' })
  if (!issued.ok) throw new Error(issued.refusal.message)
  const meters = new Meters()
  const quota = new Quota({
    plans: { standard: unlimitedPlan, unlimited: unlimitedPlan },
    ledger: store,
    clock,
    log,
  })
  quota.start()
  const declared = declareGrpcMeters(meters)
  let streams = 0
  const countStreams = (open: number) => {
    streams = open
  }
  const hub = openSolanaHub({ replaySlots: 1, replayBytesMax: 1 })
  const chain = {
    hub,
    heads: new Heads(hub),
    isUp: () => true,
    watch: () => () => {},
    solanaVersion: () => '',
  }
  const door = await startGrpc(section, {
    gate: new Gate(new Directory(store, { clock, log }), { clock }),
    quota,
    quotaMeters: declareQuotaMeters(meters, quota),
    meters: { ...declared, streams: { set: countStreams } },
    chainOf: () => chain,
    mainChain: chain,
    certificates: null,
    addresses: new Addresses([]),
    clock,
    log,
    version: '0',
  })
  let slot = firstSlot
  const flood = () => {
    if (streams === 0) return void setTimeout(flood, 5)
    const most = Math.max(streams * waitingBytes, waitingBytesMin)
    for (let round = 0; round < roundsMax && declared.backlog.bytes() < most; round++) {
      // A slot of its own for each round: the hub then lets go of what it kept for the last one.
      const update = accountUpdate({ slot: slot++, createdAtMs }, messageOf(length))
      for (let bytes = 0; bytes < turnBytes; bytes += length + 5) publishUpdate(hub, update)
      hub.abandon(update.slot)
    }
    setImmediate(flood)
  }
  flood()
  return { port: door.address!.port, token: issued.value.token }
}

const section = {
  enabled: true,
  host,
  port: 0,
  reflection: false,
  messageBytesMax: 4 * 1024 * 1024,
  backlogBytesMax: 16 * 1024 * 1024,
  pingMs: 600_000,
  keepaliveMs: 600_000,
  keepaliveTimeoutMs: 10_000,
  sendsDirectly: true,
  filters: {
    filtersMax: 10,
    accountsMax: 10,
    ownersMax: 10,
    dataSlicesMax: 10,
    cuckooBytesMax: 1024,
    any: true,
    accountReject: [],
    ownerReject: [],
  },
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
