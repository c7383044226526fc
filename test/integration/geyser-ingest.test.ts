// The worker that reads a set's geyser stream: batches to the main thread, back-pressure, death.
import { createServer, type ServerHttp2Stream } from 'node:http2'
import type { AddressInfo } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import { systemClock } from '../../src/base/clock.ts'
import { silentLog } from '../../src/base/telemetry/log.ts'
import { updateField } from '../../src/chain/solana/geyser-parts.ts'
import { slotUpdate } from '../../src/chain/solana/received-batch.ts'
import type { GeyserEnd } from '../../src/upstream/geyser/geyser-client.ts'
import { frameMessage, framePrefixBytes } from '../../src/upstream/geyser/http2-reader.ts'
import {
  type BatchListener,
  Ingest,
  type IngestReport,
  IngestWorker,
  inFlightBytesMax,
} from '../../src/upstream/geyser/ingest.ts'
import { messageOf } from '../testkit/geyser-messages.ts'
import { until } from '../testkit/until.ts'

const closes: (() => unknown)[] = []

afterEach(async () => {
  for (const close of closes.splice(0).reverse()) await close()
})

const none = new Uint8Array(0)
const updateOf = (slot: number) =>
  frameMessage(messageOf(slotUpdate({ slot, createdAtMs: 1 }, { parent: null, status: 0 })))

/** A node that answers every call with `serve`. */
async function openNode(serve: (stream: ServerHttp2Stream) => void): Promise<string> {
  const server = createServer()
  const sockets = new Set<{ destroy(): void }>()
  server.on('connection', (socket) => void sockets.add(socket))
  server.on('stream', (stream) => {
    stream.on('error', () => {})
    stream.resume()
    stream.respond({ ':status': 200, 'content-type': 'application/grpc' })
    serve(stream)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  closes.push(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

function openWorker(): IngestWorker {
  const worker = new IngestWorker({ clock: systemClock, log: silentLog, onDown() {} })
  closes.push(() => worker.stop())
  return worker
}

/** Collects what a stream reports. */
class Collected implements BatchListener {
  readonly fields: number[] = []
  readonly ends: GeyserEnd[] = []
  isOpened = false

  opened(): void {
    this.isOpened = true
  }

  batch({ table }: Parameters<BatchListener['batch']>[0]): void {
    for (let row = 0; row < table.length; row += 8) this.fields.push(table[row]!)
  }

  ended(end: GeyserEnd): void {
    this.ends.push(end)
  }
}

describe('the geyser worker', () => {
  it('reports batches of messages with their table, and how the stream ended', async () => {
    const address = await openNode((stream) => {
      stream.write(Buffer.concat([updateOf(5), updateOf(6)]))
      stream.end(frameMessage(Buffer.from([0x32, 0x00])))
    })
    const connection = await openWorker().connect({ address, xToken: '' })
    const collected = new Collected()
    connection!.subscribe(none, collected)
    await until(() => collected.ends.length > 0, 'the end')
    expect(collected.isOpened).toBe(true)
    expect(collected.fields).toEqual([updateField.slot, updateField.slot, updateField.ping])
    expect(collected.ends).toMatchObject([{ kind: 'connection' }])
  })

  it('ends its streams when it dies, and is started again', async () => {
    const address = await openNode((stream) => void stream.write(updateOf(5)))
    const worker = openWorker()
    const collected = new Collected()
    const connection = await worker.connect({ address, xToken: '' })
    connection!.subscribe(none, collected)
    await until(() => collected.fields.length === 1, 'an update')
    // No caller does this: it throws inside the worker.
    await worker.connect({ address: 'nowhere', xToken: '' })
    await until(() => collected.ends.length > 0, 'the end')
    expect(collected.ends).toMatchObject([{ kind: 'connection' }])
    const answer = await connection!.call('GetSlot', none, 1_000)
    expect(answer.ok).toBe(false)
    const second = new Collected()
    await until(async () => {
      const again = await worker.connect({ address, xToken: '' })
      again?.subscribe(none, second)
      return again !== null
    }, 'a connection')
    await until(() => second.fields.length === 1, 'an update of the second stream')
  })

  it('answers calls and streams of a closed connection as lost', async () => {
    const address = await openNode((stream) => void stream.write(updateOf(5)))
    const worker = openWorker()
    const connection = await worker.connect({ address, xToken: '' })
    connection!.close()
    const collected = new Collected()
    connection!.subscribe(none, collected)
    expect((await connection!.call('GetSlot', none, 1_000)).ok).toBe(false)
    await until(() => collected.ends.length > 0, 'the end')
  })

  it('holds the node back while the main thread does not take what it sent', async () => {
    const messages = 1_000
    const large = frameMessage(Buffer.concat([Buffer.from([0x12]), Buffer.alloc(80_000)]))
    let sent: ServerHttp2Stream | null = null
    const address = await openNode((stream) => {
      sent = stream
      for (let index = 0; index < messages; index++) stream.write(large)
    })
    const taken = new SharedArrayBuffer(4)
    let posted = 0
    let messageBytes = 0
    let rows = 0
    const ingest = new Ingest(taken, (report: IngestReport) => {
      if (report.kind !== 'batch') return
      posted += report.length
      messageBytes += report.messageBytes
      rows += report.table.length / 8
    })
    closes.push(() => ingest.take({ kind: 'close', client: 1 }))
    ingest.take({ kind: 'connect', client: 1, target: { address, xToken: '' } })
    ingest.take({ kind: 'subscribe', client: 1, call: 2, request: none })
    // All that flow control allows is under way.
    const isBlocked = () => (sent?.session?.state.remoteWindowSize ?? 1e9) < 100_000
    await until(() => posted > inFlightBytesMax && isBlocked(), 'a full window')
    expect(posted).toBeLessThan(inFlightBytesMax + 2 ** 20)
    await until(() => {
      Atomics.store(new Int32Array(taken), 0, posted)
      return rows === messages
    }, 'all messages')
    expect(messageBytes).toBe(messages * (large.length - framePrefixBytes))
  })
})
