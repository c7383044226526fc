// One WebSocket to a node, against peers that refuse, keep silent, or answer when they like.
import { once } from 'node:events'
import { createServer, type IncomingMessage } from 'node:http'
import { type AddressInfo, createServer as createRawServer, type Server } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import { type WebSocket, WebSocketServer } from 'ws'
import type { PubsubNode } from '../../src/upstream/pubsub/node.ts'
import {
  connectNode,
  type NodeAnswer,
  type NodeConnection,
  type SocketListener,
} from '../../src/upstream/pubsub/node-socket.ts'
import { until } from '../support/until.ts'

const closings: (() => unknown)[] = []
afterEach(async () => {
  for (const close of closings.splice(0)) await close()
})

class Heard implements SocketListener {
  opens = 0
  readonly notices: [string, string][] = []
  readonly losses: string[] = []
  opened(): void {
    this.opens++
  }
  notice(subscription: string, result: string): void {
    this.notices.push([subscription, result])
  }
  lost(loss: string): void {
    this.losses.push(loss)
  }
}

function connect(ws: string): { connection: NodeConnection; heard: Heard } {
  const heard = new Heard()
  // Reason for the cast: a socket looks at the addresses alone.
  const node = { addresses: { ws, xToken: 'secret' } } as unknown as PubsubNode
  const connection = connectNode(node, heard)
  closings.push(() => connection.close())
  return { connection, heard }
}

async function listening(server: Server): Promise<string> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return `ws://127.0.0.1:${(server.address() as AddressInfo).port}`
}

/** A node; `autoPong: false` is one that has stopped but whose kernel still takes bytes. */
async function peer(options: { autoPong?: boolean } = {}) {
  const requests: IncomingMessage[] = []
  const sockets: WebSocket[] = []
  const messages: string[] = []
  const http = createServer()
  const server = new WebSocketServer({ server: http, ...options })
  server.on('connection', (socket, request) => {
    sockets.push(socket)
    requests.push(request)
    socket.on('message', (data) => messages.push(String(data)))
  })
  const url = await listening(http)
  closings.push(() => {
    for (const socket of sockets) socket.terminate()
    server.close()
    http.close()
  })
  return { url, requests, sockets, messages }
}

describe('a connection', () => {
  it('shows the token, asks in turn and keeps answers and notices apart', async () => {
    const node = await peer()
    const { connection, heard } = connect(`${node.url}/path?key=1`)
    const answers: NodeAnswer[] = []
    for (let at = 0; at < 100; at++)
      connection.ask('slotSubscribe', '[]', (answer) => answers.push(answer))
    await until(() => node.messages.length > 0, 'a call')
    expect([heard.opens, node.requests[0]!.headers['x-token']]).toEqual([1, 'secret'])
    expect(node.requests[0]!.url).toBe('/path?key=1')
    // No more than a bounded number is in flight; an answer lets the next one go.
    await until(() => node.messages.length === 64, '64 calls')
    node.sockets[0]!.send('{"jsonrpc":"2.0","result":7,"id":1}')
    node.sockets[0]!.send('{"jsonrpc":"2.0","error":{"code":1,"message":"no"},"id":2}')
    await until(() => node.messages.length === 66, 'two more calls')
    expect(answers).toMatchObject([
      { ok: true, result: '7' },
      { ok: false, error: { code: 1 } },
    ])
    const notice =
      '{"jsonrpc":"2.0","method":"xNotification","params":{"result":5,"subscription":7}}'
    node.sockets[0]!.send(notice)
    node.sockets[0]!.send('noise')
    node.sockets[0]!.send(Buffer.from([1, 2, 3]))
    node.sockets[0]!.send(notice)
    await until(() => heard.notices.length === 2, 'both notices')
    expect(heard.notices[0]).toEqual(['7', '5'])
    connection.close()
    await until(() => node.sockets[0]!.readyState === node.sockets[0]!.CLOSED, 'the end')
    expect(heard.losses).toEqual([])
  })

  it('takes a notice as long as a block', async () => {
    const node = await peer()
    const { heard } = connect(node.url)
    await until(() => node.sockets.length === 1, 'the connection')
    const result = JSON.stringify('x'.repeat(20_000_000))
    node.sockets[0]!.send(
      `{"jsonrpc":"2.0","method":"blockNotification","params":{"result":${result},"subscription":1}}`,
    )
    await until(() => heard.notices.length === 1, 'the block', 30_000)
    expect(heard.notices[0]![1] === result).toBe(true)
  })
})

describe('a connection is lost, once,', () => {
  it('when nobody listens, the handshake is refused, or the address is none', async () => {
    const refusing = createServer((_, response) => response.writeHead(401).end())
    refusing.on('upgrade', (_, socket) => socket.end('HTTP/1.1 401 Unauthorized\r\n\r\n'))
    const url = await listening(refusing)
    closings.push(() => refusing.close())
    const gone = createRawServer()
    const nobody = await listening(gone)
    await new Promise((resolve) => gone.close(resolve))
    for (const address of [url, nobody, 'ws://a b']) {
      const { heard } = connect(address)
      await until(() => heard.losses.length > 0, 'the loss')
      expect([heard.losses, heard.opens]).toEqual([['refused'], 0])
    }
  })

  it('when the handshake is never answered', async () => {
    const silent = createRawServer(() => {})
    const { heard } = connect(await listening(silent))
    closings.push(() => silent.close())
    await until(() => heard.losses.length > 0, 'the loss')
    expect(heard.losses).toEqual(['refused'])
  })

  it('when the node ends it, or the network does', async () => {
    const node = await peer()
    for (const end of ['close', 'terminate'] as const) {
      const { heard } = connect(node.url)
      await until(() => heard.opens === 1, 'the connection')
      node.sockets.at(-1)![end]()
      await until(() => heard.losses.length > 0, 'the loss')
      expect(heard.losses).toEqual(['closed'])
    }
  })

  it('when the node is silent, but not while it answers pings', async () => {
    const lively = await peer()
    const frozen = await peer({ autoPong: false })
    const [one, two] = [connect(lively.url), connect(frozen.url)]
    await until(() => one.heard.opens === 1 && two.heard.opens === 1, 'both connections')
    let pings = 0
    lively.sockets[0]!.on('ping', () => pings++)
    for (let tick = 1; tick <= 8; tick++) {
      one.connection.tick()
      two.connection.tick()
      await until(() => pings === tick, 'the ping')
      // The pong has been read when the next message has.
      const { length } = one.heard.notices
      const params = '{"result":1,"subscription":1}'
      lively.sockets[0]!.send(`{"method":"xNotification","params":${params}}`)
      await until(() => one.heard.notices.length > length, 'a word of the lively one')
    }
    expect([one.heard.losses, two.heard.losses]).toEqual([[], ['silent']])
  })

  it('when a call stays unanswered although the node is alive', async () => {
    const node = await peer()
    const { connection, heard } = connect(node.url)
    await until(() => heard.opens === 1, 'the connection')
    connection.ask('slotSubscribe', '[]', () => {})
    for (let tick = 0; tick < 12; tick++) {
      connection.tick()
      if (heard.losses.length > 0) break
      const { length } = heard.notices
      node.sockets[0]!.send('{"method":"x","params":{"result":1,"subscription":1}}')
      await until(() => heard.notices.length > length, 'a word')
    }
    expect(heard.losses).toEqual(['unanswered'])
  })
})
