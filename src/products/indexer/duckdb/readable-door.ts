// Where readers ask the writer for the newest rows: a Unix socket in the index's folder.
// Thread: main of the writer process (door) and of the server (asking).
//
//   engine --"\n"--> writer: copies what was committed since --> one line of JSON: the view of now
//
// The folder is all that the two share: a writer that is down costs freshness, never an answer.
import { rm } from 'node:fs/promises'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { isAbsolute, join, relative } from 'node:path'
import { Fault } from '../../../base/errors.ts'
import { type Readable, readableFrom } from './store-files.ts'

const socketName = 'rows.sock'
/** What the address of a Unix socket can hold, everywhere. */
const pathBytesMax = 103
const answerBytesMax = 4 * 1024 * 1024

/** Answers each line with what `publish` gives. */
export async function openReadableDoor(
  folder: string,
  publish: () => Promise<Readable>,
): Promise<{ close(): Promise<void> }> {
  const path = socketPath(folder)
  await rm(path, { force: true })
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
    socket.on('close', () => sockets.delete(socket))
    socket.on('data', () => {
      publish().then(
        (readable) => socket.write(`${JSON.stringify(readable)}\n`),
        () => socket.destroy(),
      )
    })
  })
  await listen(server, path)
  // A connection that cannot be taken in (no descriptors) is lost; the door stays open.
  server.on('error', () => {})
  server.unref()
  return {
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        for (const socket of sockets) socket.destroy()
      }),
  }
}

/** Asks the writer, one question at a time; whoever asks meanwhile shares the answer after it. */
export class ReadableAsker {
  readonly #path: string
  #socket: Socket | null = null
  #waiting: ((readable: Readable | null) => void) | null = null
  #text = ''

  /** Throws a Fault when the folder's path is too long for a socket. */
  constructor(folder: string) {
    this.#path = socketPath(folder)
  }

  /** The view of now; null when the writer is not there or does not answer within the bound. */
  ask(boundMs: number): Promise<Readable | null> {
    return new Promise((resolve) => {
      const timer = setTimeout(() => this.#drop(), boundMs)
      this.#waiting = (readable) => {
        clearTimeout(timer)
        this.#waiting = null
        resolve(readable)
      }
      this.#connected().write('\n')
    })
  }

  close(): void {
    this.#drop()
  }

  #connected(): Socket {
    if (this.#socket !== null) return this.#socket
    const socket = connect(this.#path)
    this.#socket = socket
    this.#text = ''
    socket.setEncoding('utf8')
    socket.on('error', () => this.#lost(socket))
    socket.on('close', () => this.#lost(socket))
    socket.on('data', (text) => this.#receive(String(text)))
    return socket
  }

  #receive(text: string): void {
    this.#text += text
    const end = this.#text.indexOf('\n')
    if (this.#text.length > answerBytesMax) this.#drop()
    if (end === -1) return
    const line = this.#text.slice(0, end)
    this.#text = this.#text.slice(end + 1)
    try {
      this.#waiting?.(readableFrom(line))
    } catch {
      // Whoever answers here is not our writer, or is broken: as good as none.
      this.#drop()
    }
  }

  #drop(): void {
    const socket = this.#socket
    socket?.destroy()
    if (socket !== null) this.#lost(socket)
  }

  #lost(socket: Socket): void {
    if (this.#socket !== socket) return
    this.#socket = null
    this.#waiting?.(null)
  }
}

function listen(server: Server, path: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(path, () => resolve())
  })
}

function socketPath(folder: string): string {
  const path = join(folder, socketName)
  const near = relative(process.cwd(), path)
  const shorter = near.length < path.length && !isAbsolute(near) ? near : path
  if (Buffer.byteLength(shorter) > pathBytesMax)
    throw new Fault('index-folder', 'the path of the data folder is too long for a Unix socket')
  return shorter
}
