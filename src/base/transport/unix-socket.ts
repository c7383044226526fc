// Unix sockets in the data folder, which only the user of the server can open: mode 0600.
// Through one the operator's commands query live state: one JSON line in, one out. This file has
// both the server's and the client's side.
//
//   sluice status -> connect <data>/operator.sock -> {"ask":"status"}\n
//                 <- {"ok":true,"value":{...}}\n  or  {"ok":false,"error":"..."}\n
//
// It carries no secrets; what it changes, nodes that are taken out and back and recordings, has the
// same effect when it is repeated.
import { chmodSync, lstatSync, mkdirSync, statSync, unlinkSync } from 'node:fs'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { dirname, join, relative, resolve } from 'node:path'
import { Fault, messageOf } from '../errors.ts'
import type { Running } from '../running.ts'
import { faultReport, type Log } from '../telemetry/log.ts'

/** Answers one question; what it returns is written as JSON. */
type OperatorHandler = (question: OperatorQuestion) => unknown | Promise<unknown>

export interface OperatorQuestion {
  readonly ask: string
  readonly params: Readonly<Record<string, unknown>>
}

export type OperatorAnswer =
  | { readonly ok: true; readonly value: unknown }
  | {
      readonly ok: false
      readonly reason: 'no-server' | 'refused' | 'fault'
      readonly message: string
    }

const LINE_BYTES_MAX = 64 * 1024
const ANSWER_BYTES_MAX = 16 * 1024 * 1024
const CONNECTIONS_MAX = 16
/** Timeout from connecting to the full line, and for the handler's own work. */
const DEADLINE_MS = 5_000
/** The server accepted the connection and closed it without reading. */
const DROPPED = 'dropped'
const DROPPED_TRIES_MAX = 20
const DROPPED_RETRY_MS = 100

export function operatorSocketPath(data: string): string {
  return join(resolve(data), 'operator.sock')
}

/** Opens the socket. A stale file of a dead server is replaced; a live server is a Fault. */
export async function startOperatorSocket(
  data: string,
  handlers: Readonly<Record<string, OperatorHandler>>,
  log: Log,
): Promise<Running> {
  const path = operatorSocketPath(data)
  prepareFolder(dirname(path), log)
  const open = new Set<Socket>()
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    open.add(socket)
    socket.on('close', () => open.delete(socket))
    serveOne(socket, handlers, log)
  })
  server.maxConnections = CONNECTIONS_MAX
  await listenAtPath(server, path, 'operator-socket')
  // A connection that could not be accepted, for lack of descriptors: its client sees the close.
  server.on('error', faultReport(log, 'an operator connection could not be accepted'))
  let stopping: Promise<void> | null = null
  const stop = () => {
    stopping ??= new Promise<void>((done) => {
      server.close(() => done())
      for (const socket of open) socket.destroy()
    })
    return stopping
  }
  return { address: null, stop }
}

/** Queries the server that runs on this data folder. Never throws. A query may be repeated, so one
 *  whose connection a server without free descriptors dropped is retried. */
export async function askOperator(
  data: string,
  ask: string,
  params: Readonly<Record<string, unknown>> = {},
): Promise<OperatorAnswer> {
  for (let tries = 1; ; tries++) {
    const answer = await askOnce(data, ask, params)
    if (answer !== DROPPED) return answer
    if (tries === DROPPED_TRIES_MAX) return brokenAnswer('cut short')
    await new Promise((resolve) => setTimeout(resolve, DROPPED_RETRY_MS))
  }
}

function askOnce(
  data: string,
  ask: string,
  params: Readonly<Record<string, unknown>>,
): Promise<OperatorAnswer | typeof DROPPED> {
  return new Promise((done) => {
    const socket = connect(reachable(operatorSocketPath(data)))
    const timer = setTimeout(() => {
      finish({ ok: false, reason: 'fault', message: 'the server did not answer within 5 s' })
    }, DEADLINE_MS)
    const lines = new LineReader(ANSWER_BYTES_MAX)
    const finish = (answer: OperatorAnswer | typeof DROPPED) => {
      clearTimeout(timer)
      socket.destroy()
      done(answer)
    }
    socket.on('connect', () => socket.write(`${JSON.stringify({ ask, params })}\n`))
    socket.on('data', (chunk) => {
      const line = lines.push(chunk)
      if (line !== null) finish(readAnswer(line))
      else if (lines.isOverfull) finish(brokenAnswer('too long'))
    })
    socket.on('end', () => finish(lines.isEmpty ? DROPPED : brokenAnswer('cut short')))
    socket.on('error', (error: NodeJS.ErrnoException) => {
      const isDropped = error.code === 'EPIPE' || error.code === 'ECONNRESET'
      finish(isDropped ? DROPPED : answerOfError(error))
    })
  })
}

function serveOne(
  socket: Socket,
  handlers: Readonly<Record<string, OperatorHandler>>,
  log: Log,
): void {
  const lines = new LineReader(LINE_BYTES_MAX)
  let isAsked = false
  const timer = setTimeout(() => socket.destroy(), DEADLINE_MS)
  const reply = (answer: unknown) => {
    clearTimeout(timer)
    socket.end(`${JSON.stringify(answer)}\n`)
  }
  socket.on('close', () => clearTimeout(timer))
  // A client that disconnected while we answered is not reported.
  socket.on('error', () => socket.destroy())
  socket.on('end', () => {
    if (!isAsked) socket.end()
  })
  socket.on('data', (chunk) => {
    if (isAsked) return
    const line = lines.push(chunk)
    if (line === null && !lines.isOverfull) return
    isAsked = true
    if (line === null) reply({ ok: false, error: 'the question is too long' })
    else
      answer(line, handlers).then(reply, (error: unknown) => {
        log.error('operator question failed', { error: messageOf(error) })
        reply({ ok: false, error: 'the server failed to answer' })
      })
  })
}

async function answer(
  line: string,
  handlers: Readonly<Record<string, OperatorHandler>>,
): Promise<unknown> {
  const question = readQuestion(line)
  if (question === null) return { ok: false, error: 'the question is not {"ask":"..."}' }
  const handler = Object.hasOwn(handlers, question.ask) ? handlers[question.ask] : undefined
  if (handler === undefined) {
    const known = Object.keys(handlers).join(', ')
    return { ok: false, error: `unknown question; this server knows: ${known}` }
  }
  return { ok: true, value: await handler(question) }
}

function readQuestion(line: string): OperatorQuestion | null {
  try {
    const value: unknown = JSON.parse(line)
    if (typeof value !== 'object' || value === null || !('ask' in value)) return null
    const params = 'params' in value ? value.params : {}
    if (typeof value.ask !== 'string' || typeof params !== 'object' || params === null) return null
    return { ask: value.ask, params: params as Record<string, unknown> }
  } catch {
    return null
  }
}

function readAnswer(line: string): OperatorAnswer {
  try {
    const value = JSON.parse(line) as { ok?: unknown; value?: unknown; error?: unknown }
    if (value.ok === true) return { ok: true, value: value.value }
    return { ok: false, reason: 'refused', message: String(value.error) }
  } catch {
    return brokenAnswer('not JSON')
  }
}

function brokenAnswer(how: string): OperatorAnswer {
  return { ok: false, reason: 'fault', message: `the server's answer was ${how}` }
}

function answerOfError(error: NodeJS.ErrnoException): OperatorAnswer {
  const isAbsent = error.code === 'ENOENT' || error.code === 'ECONNREFUSED'
  if (isAbsent) return { ok: false, reason: 'no-server', message: 'no server runs on this folder' }
  if (error.code === 'EACCES')
    return {
      ok: false,
      reason: 'refused',
      message: 'not allowed to open operator.sock: run as the user that runs the server',
    }
  return { ok: false, reason: 'fault', message: error.message }
}

/** Creates the folder as private; an existing one that others can read is reported, not changed. */
function prepareFolder(folder: string, log: Log): void {
  const made = mkdirSync(folder, { recursive: true, mode: 0o700 })
  if (made !== undefined) return
  if ((statSync(folder).mode & 0o077) !== 0)
    log.warn('data folder is readable by other users, run chmod 700 on it', { folder })
}

/** Collects chunks until the first line end, up to a limit. */
class LineReader {
  readonly #chunks: Buffer[] = []
  readonly #bytesMax: number
  #bytes = 0

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax
  }

  get isEmpty(): boolean {
    return this.#bytes === 0
  }

  get isOverfull(): boolean {
    return this.#bytes > this.#bytesMax
  }

  push(chunk: Buffer): string | null {
    if (this.isOverfull) return null
    this.#chunks.push(chunk)
    this.#bytes += chunk.length
    const end = chunk.indexOf(10)
    if (end < 0 || this.isOverfull) return null
    const all = Buffer.concat(this.#chunks)
    return all.toString('utf8', 0, this.#bytes - chunk.length + end)
  }
}

/** sun_path of Linux has 108 bytes with its terminating zero. */
const PATH_BYTES_MAX = 107

/**
 * Listens at the path. A stale file of a dead server is replaced; a live server, or a file that is
 * no socket, is a Fault of this kind.
 */
export async function listenAtPath(server: Server, path: string, kind: string): Promise<void> {
  await removeStale(path, kind)
  const short = reachable(path)
  if (Buffer.byteLength(short) > PATH_BYTES_MAX)
    throw new Fault(kind, `${path} is too long for a socket: use a shorter data folder`)
  await new Promise<void>((done, fail) => {
    const failed = (cause: Error) =>
      fail(new Fault(kind, `cannot open ${path}: ${messageOf(cause)}`, { cause }))
    server.once('error', failed)
    // The file is created under this mask, so that no other user can connect before the chmod. All
    // threads have it: one that makes a folder meanwhile must still be able to use that.
    const before = process.umask(0o077)
    try {
      server.listen(short, () => {
        server.off('error', failed)
        done()
      })
    } finally {
      process.umask(before)
    }
    if (lstatSync(path, { throwIfNoEntry: false }) !== undefined) chmodSync(path, 0o600)
  })
}

/** The shorter of the absolute and the relative path: the length of a socket's name is limited. */
export function reachable(path: string): string {
  const near = relative(process.cwd(), path)
  return near.length < path.length ? near : path
}

async function removeStale(path: string, kind: string): Promise<void> {
  const found = lstatSync(path, { throwIfNoEntry: false })
  if (found === undefined) return
  if (!found.isSocket())
    throw new Fault(kind, `${path} is not a socket: move it away and start again`)
  if (await isAnswered(path))
    throw new Fault(kind, `another server runs on this data folder (${path})`)
  unlinkSync(path)
}

function isAnswered(path: string): Promise<boolean> {
  return new Promise((done) => {
    const socket = connect(reachable(path))
    socket.on('connect', () => {
      socket.destroy()
      done(true)
    })
    socket.on('error', (error: NodeJS.ErrnoException) => done(error.code !== 'ECONNREFUSED'))
  })
}
