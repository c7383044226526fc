// Locks the data folder for one server, by a lock on the file `<data>/lock`.
// Commands do not take it: the registry has its own locking between them and the server.
// The kernel ties the lock to our descriptor (an "open file description" lock) and releases it when
// the process ends, however it ends; it applies in every namespace that sees the folder. Only the
// owner may open the file (0600), so that no other user can lock it. It stays after a stop.
//
//   struct flock, 32 bytes: type i16 | whence i16 | - | start i64 | length i64 | pid i32 | -
import {
  closeSync,
  constants,
  fstatSync,
  ftruncateSync,
  openSync,
  readSync,
  writeSync,
} from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { accept, Fault, messageOf, type Outcome, refuse } from '../../base/errors.ts'
import { makeFolder } from './folder.ts'

export interface DataLock {
  release(): Promise<void>
}

/** The process that has the lock; the pid is null when the file does not contain it. */
export interface LockHolder {
  readonly pid: number | null
}

const flockBytes = 32
const getLock = 36
/** Fails at once where another process has a lock that excludes it. */
export const setLock = 37
/** Of `struct flock`. */
export const lockType = { shared: 0, exclusive: 1, unlocked: 2 } as const
const errnos = { again: 11, access: 13 } as const
const pidBytesMax = 16

/** Locks the folder, making it when absent; refused while another server has the lock. */
export async function lockData(path: string): Promise<Outcome<DataLock>> {
  makeFolder(path)
  const file = join(path, 'lock')
  const fd = openLock(file, constants.O_RDWR | constants.O_CREAT)
  try {
    checkOwner(file, fd)
    const libc = loadFcntl()
    if (libc.fcntl(fd, setLock, lockOf(lockType.exclusive)) !== 0) {
      const errno = libc.errno()
      if (errno !== errnos.again && errno !== errnos.access)
        throw new Fault('data-lock', `${file} cannot be locked: fcntl failed with errno ${errno}`)
      const pid = readPid(fd)
      closeSync(fd)
      const who = pid === null ? 'another server' : `process ${pid}`
      return refuse('unavailable', 'data-locked', `the data folder ${path} is in use by ${who}`)
    }
  } catch (error) {
    closeSync(fd)
    throw error
  }
  writePid(fd)
  return accept({ release: async () => closeSync(fd) })
}

/** The server that has the lock, or null. Takes no lock, so it never blocks a starting server. */
export async function lockHolder(path: string): Promise<LockHolder | null> {
  let fd: number
  try {
    fd = openSync(join(path, 'lock'), constants.O_RDONLY | constants.O_NOFOLLOW)
  } catch {
    // No file means no lock; a file that we may not read is not the lock of our user's server.
    return null
  }
  try {
    const asked = lockOf(lockType.exclusive)
    const { fcntl } = loadFcntl()
    const isFree = fcntl(fd, getLock, asked) !== 0 || asked.readInt16LE(0) === lockType.unlocked
    return isFree ? null : { pid: readPid(fd) }
  } finally {
    closeSync(fd)
  }
}

function openLock(file: string, flags: number): number {
  try {
    return openSync(file, flags | constants.O_NOFOLLOW, 0o600)
  } catch (cause) {
    throw new Fault('data-lock', `the lock file cannot be opened: ${messageOf(cause)}`, { cause })
  }
}

/** Refuses a lock file that other users may open, because they could lock it. */
function checkOwner(file: string, fd: number): void {
  const { uid, mode } = fstatSync(fd)
  const self = process.geteuid?.()
  if (self !== undefined && uid !== self)
    throw new Fault(
      'data-lock',
      `${file} belongs to user ${uid}, not to ${self}: chown or remove it`,
    )
  if ((mode & 0o077) !== 0)
    throw new Fault('data-lock', `${file} is accessible to other users: run chmod 600 ${file}`)
}

interface Fcntl {
  fcntl(fd: number, command: number, lock: Buffer): number
  /** Of the last call that failed. */
  errno(): number
}

/** Loaded when it is needed, and not before: most commands lock nothing. */
export function loadFcntl(): Fcntl {
  try {
    const koffi = createRequire(import.meta.url)('koffi') as typeof import('koffi')
    const native = koffi.load('libc.so.6').func('int fcntl(int, int, ...)')
    return {
      fcntl: (fd, number, lock) => native(fd, number, 'void *', lock) as number,
      errno: () => koffi.errno(),
    }
  } catch (cause) {
    const message = `the C library, which locks files, does not load: ${messageOf(cause)}`
    throw new Fault('data-lock', message, { cause })
  }
}

/** A lock on the whole file: start 0, length 0. */
export function lockOf(type: number): Buffer {
  const lock = Buffer.alloc(flockBytes)
  lock.writeInt16LE(type, 0)
  return lock
}

function readPid(fd: number): number | null {
  const bytes = Buffer.alloc(pidBytesMax)
  const text = bytes.toString('latin1', 0, readSync(fd, bytes, 0, pidBytesMax, 0)).trim()
  return /^[1-9]\d*$/.test(text) ? Number(text) : null
}

/** Only the refusal of a second server uses the pid: a full disk must not prevent the start. */
function writePid(fd: number): void {
  try {
    ftruncateSync(fd)
    writeSync(fd, `${process.pid}\n`, 0)
  } catch {
    // Without a pid the refusal names "another server".
  }
}
