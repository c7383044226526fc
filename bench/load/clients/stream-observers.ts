// The observers of `sluice bench race` and the stream that they read, one process each: frames per
// second of CPU time. Thread: main of that process.
import { createHash, randomBytes } from 'node:crypto'
import { connect } from 'node:http2'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { encodeBase58 } from '../../../src/chain/solana/base58.ts'
import { observeGeyser } from '../../../src/loadtest/race/geyser-observer.ts'
import type { Endpoint, Subject } from '../../../src/loadtest/race/observer.ts'
import { observePubsub } from '../../../src/loadtest/race/socket-observer.ts'
import { serveBench } from '../../../test/testkit/process.ts'
import { usedSeconds } from '../../lib/processor-time.ts'

export interface Observed {
  readonly frames: number
  readonly bytes: number
  readonly cpuSeconds: number
}

const acceptKey = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11'
const writeBytes = 64 * 1024
const windowBytes = 32 * 1024 * 1024
let frames = 0
let bytes = 0

serveBench({
  geyser(url: string) {
    observe(observeGeyser, { kind: 'geyser', url, token: null }, 'account')
  },
  websocket(url: string) {
    observe(observePubsub, { kind: 'websocket', url, token: null }, 'transaction')
  },
  /** Counts the bytes of a stream and looks at none of them. */
  bare(url: string) {
    const session = connect(url, { settings: { initialWindowSize: windowBytes } })
    session.on('connect', () => session.setLocalWindowSize(windowBytes))
    session
      .request({ ':method': 'POST', ':path': '/geyser.Geyser/Subscribe' })
      .on('data', (chunk: Buffer) => {
        bytes += chunk.length
      })
  },
  counts(): Observed {
    return { frames, bytes, cpuSeconds: usedSeconds() }
  },
  sendLogs,
})

type Observe = typeof observePubsub

function observe(start: Observe, endpoint: Endpoint, unit: Subject['unit']): void {
  const subject = { unit, accounts: [], commitment: 'processed', pollMs: 50 } as const
  start(endpoint, subject, {
    live() {},
    saw() {
      frames += 1
    },
    roundTrip() {},
    down(problem) {
      throw new Error(problem)
    },
  })
}

/** A PubSub endpoint that sends notifications of logs as fast as they are read; its port. */
function sendLogs(): Promise<number> {
  const server = createServer((socket) => {
    socket.on('error', () => {})
    socket.once('data', (head) => {
      const key = /sec-websocket-key: *(\S+)/i.exec(head.toString('latin1'))?.[1] ?? ''
      const accept = createHash('sha1')
        .update(key + acceptKey)
        .digest('base64')
      socket.write(
        'HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\n' +
          `sec-websocket-accept: ${accept}\r\n\r\n`,
      )
      // The first message is the subscribe; pings later need no answer to keep the stream.
      socket.once('data', () => stream(socket))
    })
  })
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () => resolve((server.address() as AddressInfo).port))
  })
}

function stream(socket: Socket): void {
  socket.resume()
  socket.write(frame({ jsonrpc: '2.0', result: 1, id: 0 }))
  const signature = encodeBase58(randomBytes(64))
  const logs = ['Program 11111111111111111111111111111111 invoke [1]', 'Program success']
  const result = { context: { slot: 1 }, value: { signature, err: null, logs } }
  const params = { result, subscription: 1 }
  const one = frame({ jsonrpc: '2.0', method: 'logsNotification', params })
  const many = Buffer.concat(Array(Math.ceil(writeBytes / one.length)).fill(one))
  const send = () => {
    while (!socket.destroyed && socket.write(many));
  }
  socket.on('drain', send)
  send()
}

function frame(message: object): Buffer {
  const text = Buffer.from(JSON.stringify(message))
  const head =
    text.length < 126 ? [0x81, text.length] : [0x81, 126, text.length >> 8, text.length & 0xff]
  return Buffer.concat([Buffer.from(head), text])
}
