// The plain way to resume: keeps events as objects and encodes each one for each client, on the
// `ws` package. Thread: main of a process of its own.
import type { AddressInfo } from 'node:net'
import { type WebSocket, WebSocketServer } from 'ws'
import { serveBench } from '../../../test/testkit/process.ts'

interface Stored {
  readonly seq: number
  readonly kind: string
  readonly payload: unknown
}

const stored: Stored[] = []
let server: WebSocketServer | null = null

serveBench({ open, fill })

async function open(): Promise<number> {
  server = new WebSocketServer({ host: '127.0.0.1', port: 0, perMessageDeflate: false })
  server.on('connection', (socket, request) => {
    const query = new URL(request.url ?? '/', 'http://bench').searchParams
    void replay(socket, Number(query.get('resume_from')))
  })
  await new Promise((resolve) => server?.once('listening', resolve))
  return (server.address() as AddressInfo).port
}

function fill(frames: number) {
  for (let count = 0; count < frames; count++) {
    const place = count % 7
    const pad = place < 5 ? 230 : place === 5 ? 2600 : 7800
    const kind = place === 0 ? 'TPS' : place < 5 ? 'Gap' : 'ContentionData'
    const payload = place === 0 ? 455 : { pad: 'x'.repeat(pad) }
    stored.push({ seq: count + 1, kind, payload })
  }
  return { oldest: 1, newest: frames, bytes: 0 }
}

async function replay(socket: WebSocket, cursor: number): Promise<void> {
  for (const { seq, kind, payload } of stored.slice(cursor)) {
    const sent = new Promise((resolve) => {
      socket.send(JSON.stringify({ seq, [kind]: payload }), resolve)
    })
    if (socket.bufferedAmount > 1024 * 1024) await sent
  }
}
