// The receiving end of the pubsub bench: many WebSockets that count frames and look whether slots
// rise. Thread: main of a process of its own. Reads frames by hand, so that it costs less than
// what it measures.
import { connect, type Socket } from 'node:net'
import { serveBench } from '../../lib/process.ts'

export interface Received {
  readonly frames: number
  /** Frames whose slot was not above the one before on the same socket. */
  readonly unordered: number
}

class Reader {
  frames = 0
  unordered = 0
  #slot = 0
  #rest: Buffer = Buffer.alloc(0)

  read(chunk: Buffer): void {
    const data = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk])
    let at = 0
    for (;;) {
      const body = bodyOf(data, at)
      if (body === null) break
      const slot = numberAfter(data, '"slot":', body.start)
      if (slot <= this.#slot) this.unordered++
      this.#slot = slot
      this.frames++
      at = body.end
    }
    this.#rest = data.subarray(at)
  }
}

let readers: Reader[] = []
let sockets: Socket[] = []

serveBench({ open, read, close })

async function open({ port, count }: { port: number; count: number }): Promise<void> {
  readers = Array.from({ length: count }, () => new Reader())
  sockets = []
  for (const reader of readers) sockets.push(await upgraded(port, reader))
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

function upgraded(port: number, reader: Reader): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1')
    socket.on('error', reject)
    socket.write(
      'GET / HTTP/1.1\r\nhost: x\r\nconnection: Upgrade\r\nupgrade: websocket\r\n' +
        'sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n',
    )
    socket.once('data', (head) => {
      const end = head.indexOf('\r\n\r\n') + 4
      if (head.length > end) reader.read(head.subarray(end))
      socket.on('data', (chunk) => reader.read(chunk))
      resolve(socket)
    })
  })
}

function bodyOf(data: Buffer, at: number): { start: number; end: number } | null {
  if (data.length < at + 4) return null
  const short = data[at + 1]!
  const start = short < 126 ? at + 2 : at + 4
  const end = start + (short < 126 ? short : data.readUInt16BE(at + 2))
  return data.length < end ? null : { start, end }
}

function numberAfter(data: Buffer, name: string, from: number): number {
  let at = data.indexOf(name, from, 'latin1') + name.length
  let value = 0
  for (; data[at]! >= 48 && data[at]! <= 57; at++) value = value * 10 + data[at]! - 48
  return value
}
