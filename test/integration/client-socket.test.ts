// The WebSocket of `sluice/client/node` against peers good and bad.
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { afterEach, describe, expect, it } from 'vitest'
import { WebSocketServer } from 'ws'
import { NodeSocket } from '../../src/client/node-socket.ts'
import { until } from '../testkit/until.ts'

const closings: (() => unknown)[] = []
afterEach(async () => {
  for (const close of closings.splice(0)) await close()
})

interface Peer {
  readonly url: string
  readonly requests: IncomingMessage[]
  readonly sockets: Set<Socket>
}

/** A server that hands every upgrade to a test. */
async function peer(
  upgraded: (request: IncomingMessage, stream: Duplex, head: Buffer) => void,
): Promise<Peer> {
  const server = createServer((_, response) => response.writeHead(401).end())
  const requests: IncomingMessage[] = []
  const sockets = new Set<Socket>()
  server.on('connection', (socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
    socket.on('error', () => {})
  })
  server.on('upgrade', (request, stream, head) => {
    requests.push(request)
    upgraded(request, stream, head)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  closings.push(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return { url: `ws://127.0.0.1:${(server.address() as AddressInfo).port}`, requests, sockets }
}

/** One that echoes every message. */
function echo(): Promise<Peer> {
  const server = new WebSocketServer({ noServer: true, maxPayload: 1 << 26 })
  return peer((request, stream, head) =>
    server.handleUpgrade(request, stream, head, (socket) =>
      socket.on('message', (data) => socket.send(String(data))),
    ),
  )
}

const guid = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11'

/** One that speaks by hand; `accept` changes what it answers to the key. */
function byHand(speak: (stream: Duplex) => void, accept = (right: string) => right) {
  return peer((request, stream) => {
    const key = request.headers['sec-websocket-key']
    const right = createHash('sha1').update(`${key}${guid}`).digest('base64')
    const lines = [
      'HTTP/1.1 101 Switching Protocols',
      'upgrade: websocket',
      'connection: upgrade',
      `sec-websocket-accept: ${accept(right)}`,
    ]
    stream.on('error', () => {})
    // A server's side stays half open until it ends it.
    stream.on('end', () => stream.end())
    stream.resume()
    stream.write(`${lines.join('\r\n')}\r\n\r\n`)
    speak(stream)
  })
}

interface Opened {
  readonly socket: NodeSocket
  readonly messages: string[]
  readonly closes: { code: number; reason: string }[]
  readonly errors: string[]
  opens: number
}

function open(url: string, headers: Record<string, string> = {}): Opened {
  const socket = new NodeSocket(url, headers)
  const opened: Opened = { socket, messages: [], closes: [], errors: [], opens: 0 }
  socket.onopen = () => {
    opened.opens++
  }
  socket.onmessage = ({ data }) => opened.messages.push(data)
  socket.onclose = (event) => opened.closes.push(event)
  socket.onerror = ({ message }) => opened.errors.push(message)
  closings.push(() => socket.close())
  return opened
}

/** A frame of a server: opcode 0 continues, 1 is text; the last bit ends it. */
function frame(opcode: number, isLast: boolean, payload: Buffer): Buffer {
  const head = Buffer.alloc(10)
  head[0] = (isLast ? 0x80 : 0) | opcode
  head[1] = 127
  head.writeBigUInt64BE(BigInt(payload.length), 2)
  return Buffer.concat([head, payload])
}

describe('the socket of sluice/client/node', () => {
  it.each([125, 126, 65_535, 65_536, 100_000, 1_000_000])(
    'sends and takes a message of %i bytes, and its headers',
    async (length) => {
      const server = await echo()
      const one = open(server.url.replace('ws', 'http'), { 'x-token': 'abc' })
      await until(() => one.opens === 1, 'it to open')
      const message = 'é'.repeat(length / 2) + 'x'.repeat(length % 2)
      one.socket.send(message)
      await until(() => one.messages.length === 1, 'the message to come back')
      expect(one.messages[0] === message).toBe(true)
      expect(server.requests[0]!.headers['x-token']).toBe('abc')
      expect(one.errors).toEqual([])
      one.socket.close()
      await until(() => one.closes.length === 1, 'it to close')
    },
  )

  it('refuses a server that does not know the key of the handshake', async () => {
    const speak = (stream: Duplex) => void stream.write(frame(1, true, Buffer.from('hello')))
    for (const accept of [() => 'AAAAAAAAAAAAAAAAAAAAAAAAAAA=', () => '']) {
      const server = await byHand(speak, accept)
      const one = open(server.url)
      await until(() => one.closes.length === 1, 'it to be refused')
      expect([one.opens, one.messages, one.errors.length]).toEqual([0, [], 1])
      await until(() => server.sockets.size === 0, 'the connection to be cut')
    }
    const right = open((await byHand(speak)).url)
    await until(() => right.messages.length === 1, 'the message')
  })

  it('bounds what a message may have, in bytes and in fragments', async () => {
    const million = Buffer.alloc(1_000_000, 'x')
    const endless = (piece: Buffer) => (stream: Duplex) => {
      stream.write(frame(1, false, piece))
      const go = () => {
        if (stream.destroyed) return
        if (stream.write(frame(0, false, piece))) setImmediate(go)
        else stream.once('drain', go)
      }
      go()
    }
    const ways: [string, (stream: Duplex) => void][] = [
      ['many large fragments', endless(million)],
      ['endless small fragments', endless(Buffer.from('x'))],
      ['one frame', (stream) => void stream.write(frame(1, true, Buffer.alloc(17_000_000)))],
    ]
    for (const [name, speak] of ways) {
      const server = await byHand(speak)
      const one = open(server.url)
      await until(() => one.closes.length === 1, name)
      expect([one.opens, one.messages], name).toEqual([1, []])
      await until(() => server.sockets.size === 0, `${name}: the connection to be cut`)
    }
  })

  it('reports a refused handshake and an unreachable server', async () => {
    const server = await peer((_, stream) => stream.end('HTTP/1.1 401 Unauthorized\r\n\r\n'))
    for (const url of [server.url, 'ws://127.0.0.1:9']) {
      const one = open(url)
      await until(() => one.closes.length === 1, 'it to be refused')
      expect([one.opens, one.errors.length, one.closes[0]!.code]).toEqual([0, 1, 1006])
      expect([one.errors[0], one.closes[0]!.reason]).toEqual(
        Array(2).fill(expect.stringMatching(/./)),
      )
    }
  })

  it('sends nothing before it is open, and may be closed then', async () => {
    const server = await echo()
    const one = open(server.url)
    one.socket.send('early')
    one.socket.close()
    await until(() => one.closes.length === 1, 'it to close')
    expect([one.opens, one.messages]).toEqual([0, []])
    await until(() => server.sockets.size === 0, 'the connection to be cut')
  })

  it('gives up a peer that does not answer its close', async () => {
    const server = await byHand(() => {})
    const one = open(server.url)
    await until(() => one.opens === 1, 'it to open')
    one.socket.close()
    await until(() => one.closes.length === 1, 'it to close')
    await until(() => server.sockets.size === 0, 'the connection to be cut')
  })
})
