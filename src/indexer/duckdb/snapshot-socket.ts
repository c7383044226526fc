// Requests a snapshot of the newest rows from the writer over a Unix socket in the index's folder.
// Thread: main of the writer process (server) and of the query program (client).
//
//   engine --"\n"--> writer: copies rows committed since --> one line of JSON: a Snapshot
//
// The two processes share only the folder: when the writer is down, queries still run, on older
// rows.
import { rm } from 'node:fs/promises'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { isAbsolute, join, relative } from 'node:path'
import { Fault } from '../../base/errors.ts'
import { parseSnapshot, readSnapshot, type StoreSnapshot } from './store-files.ts'

const socketName = 'rows.sock'
/** Longest path of a Unix socket that every platform accepts. */
const pathBytesMax = 103
const answerBytesMax = 4 * 1024 * 1024

/** Listens on the socket and answers each request with the result of `publish`. */
export async function serveSnapshots(
  folder: string,
  publish: () => Promise<StoreSnapshot>,
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
        (snapshot) => socket.write(`${JSON.stringify(snapshot)}\n`),
        () => socket.destroy(),
      )
    })
  })
  await listen(server, path)
  // A connection that cannot be accepted (no file descriptors) is lost; the listener stays open.
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

/** The newest snapshot; null when the writer is down or does not answer before the timeout. */
export function requestSnapshot(path: string, timeoutMs: number): Promise<StoreSnapshot | null> {
  return new Promise((resolve) => {
    const socket = connect(path)
    const timer = setTimeout(() => socket.destroy(), timeoutMs)
    let text = ''
    socket.setEncoding('utf8')
    socket.on('error', () => {})
    socket.on('data', (more) => {
      text += more
      if (text.endsWith('\n') || text.length > answerBytesMax) socket.destroy()
    })
    socket.on('close', () => {
      clearTimeout(timer)
      resolve(text.endsWith('\n') ? readAnswer(text) : null)
    })
    socket.write('\n')
  })
}

/** Null when the peer is not our writer, or is broken: treated like a writer that is down. */
function readAnswer(text: string): StoreSnapshot | null {
  try {
    return parseSnapshot(text)
  } catch {
    return null
  }
}

/**
 * Queries within this time share a snapshot: their rows are at most this much older. Every new
 * one costs the writer a file, and each query process its opening. With the time that rows are
 * gathered and committed, it stays within the 250 ms that rows may need to become readable.
 */
const shareMs = 180
/** Timeout for a busy writer; a writer that is down fails at once. */
const requestMsMax = 5000

/** Provides the newest snapshot to queries. */
export class LatestSnapshot {
  readonly #folder: string
  readonly #path: string
  #requested: Promise<StoreSnapshot | null> = Promise.resolve(null)
  #requestedAtMs = Number.NEGATIVE_INFINITY
  /** The last request has not started yet. */
  #isQueued = false

  /** Throws a Fault when the folder's path is too long for a socket. */
  constructor(folder: string) {
    this.#folder = folder
    this.#path = socketPath(folder)
  }

  /**
   * Resolves within the timeout; falls back to the snapshot on disk, which may be older. Rejects
   * when that exists and cannot be read (no file descriptors, a broken disk), because returning
   * an empty index would be wrong.
   */
  async get(timeoutMs: number): Promise<StoreSnapshot> {
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<null>((resolve) => {
      timer = setTimeout(() => resolve(null), timeoutMs)
    })
    const snapshot = await Promise.race([this.#get(), late])
    clearTimeout(timer)
    return snapshot ?? readSnapshot(this.#folder)
  }

  #get(): Promise<StoreSnapshot | null> {
    const isRecent = performance.now() - this.#requestedAtMs < shareMs
    if (this.#isQueued || isRecent) return this.#requested
    // One request at a time, and one that starts when it is answered or has failed.
    this.#isQueued = true
    const request = () => {
      this.#isQueued = false
      this.#requestedAtMs = performance.now()
      return requestSnapshot(this.#path, requestMsMax)
    }
    this.#requested = this.#requested.then(request, request)
    return this.#requested
  }

  /** Requests a new snapshot after the shared one turned out to be stale. */
  renew(timeoutMs: number): Promise<StoreSnapshot> {
    this.#requestedAtMs = Number.NEGATIVE_INFINITY
    return this.get(timeoutMs)
  }
}

function listen(server: Server, path: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(path, () => resolve())
  })
}

/** Throws a Fault when it is too long. */
export function socketPath(folder: string): string {
  const path = join(folder, socketName)
  const near = relative(process.cwd(), path)
  const shorter = near.length < path.length && !isAbsolute(near) ? near : path
  if (Buffer.byteLength(shorter) > pathBytesMax)
    throw new Fault('index-folder', 'the path of the data folder is too long for a Unix socket')
  return shorter
}
