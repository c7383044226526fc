// The receiving end of the pubsub benches: many WebSockets that count notifications and check that
// slots rise. Thread: main of a process of its own. Reads frames by hand, so that it costs less
// than what it measures.
import { connect, type Socket } from 'node:net'
import { serveBench } from '../../../test/testkit/process.ts'
import { SlotReader } from '../../lib/slot-reader.ts'

export interface Received {
  readonly frames: number
  /** Frames whose slot was not above the one before on the same socket. */
  readonly unordered: number
}

let readers: SlotReader[] = []
let sockets: Socket[] = []

serveBench({ open, read, close })

async function open({ port, count }: { port: number; count: number }): Promise<void> {
  readers = []
  sockets = []
  for (let opened = 0; opened < count; opened++) await upgrade(port)
}

/** What came since the sockets opened, once `due` frames are there or nothing comes any more. */
async function read({ due }: { due: number }): Promise<Received> {
  const sum = () => readers.reduce((total, { frames }) => total + frames, 0)
  const quietMsMax = 5_000
  let seen = sum()
  let changedMs = performance.now()
  while (seen < due && performance.now() - changedMs < quietMsMax) {
    await new Promise((resolve) => setTimeout(resolve, 5))
    const now = sum()
    if (now !== seen) changedMs = performance.now()
    seen = now
  }
  return { frames: seen, unordered: readers.reduce((total, one) => total + one.unordered, 0) }
}

async function close(): Promise<void> {
  for (const socket of sockets) socket.destroy()
}

function upgrade(port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1')
    const reader = new SlotReader((frame) => socket.write(frame))
    socket.on('error', reject)
    socket.write(
      'GET / HTTP/1.1\r\nhost: x\r\nconnection: Upgrade\r\nupgrade: websocket\r\n' +
        'sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n',
    )
    socket.once('data', (head) => {
      const end = head.indexOf('\r\n\r\n') + 4
      if (head.length > end) reader.read(head.subarray(end))
      socket.on('data', (chunk) => reader.read(chunk))
      readers.push(reader)
      sockets.push(socket)
      resolve()
    })
  })
}
