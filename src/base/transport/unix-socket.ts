// Unix sockets in the data folder, which only the user of the server can open: mode 0600.
import { chmodSync, lstatSync, unlinkSync } from 'node:fs'
import { connect, type Server } from 'node:net'
import { relative } from 'node:path'
import { Fault, messageOf } from '../errors.ts'

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
    // The file is created under this mask, so that no other user can connect before the chmod.
    const before = process.umask(0o177)
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
