// Locks the data folder for one server, by a lock on the file `<data>/lock`.
// Of commands only `restore` and `cluster seed` take it: the registry has locking of its own.
// The kernel ties the lock to our descriptor (an "open file description" lock) and releases it when
// the process ends, however it ends; it applies in every namespace that sees the folder. Only the
// owner may open the file (0600), so that no other user can lock it. It stays after a stop.
//
//   struct flock, 32 bytes: type i16 | whence i16 | - | start i64 | length i64 | pid i32 | -
import {
  closeSync,
  constants,
  fchownSync,
  fstatSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  readFileSync,
  readSync,
  renameSync,
  statSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join, resolve } from 'node:path'
import { accept, Fault, messageOf, type Outcome, refuse } from '../../base/errors.ts'
import type { AuditHead } from './audit.ts'

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
    throw new Fault('data-lock', `${file} belongs to user ${uid}, not ${self}: chown or remove it`)
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

// Keeps processes from opening the registry while another one writes to it.
// LMDB sets the shared number of the newest transaction when an environment is opened, to what it
// had read a moment before: a transaction that was committed in between is written over by the next
// one, although it was acknowledged. So an open has the lock alone, and writes share it.
//
//   open:  exclusive ──►│ open, convert │◄── released
//   write: shared, counted ──►│ commit │◄── released with the last one
//
// A process that is stuck in its open does not stop writes: after a second they go on without the
// lock, and do not wait again until they had it once. An open waits longer, and is refused then.
// The lock is on `<registry>/open.lock`, released by the kernel when its process ends. A process
// that has the registry open already does not open the environment again, and needs no lock.

/** Longest waits for the lock. */
const waitsInitial = { openMs: 30_000, writeMs: 1_000 }
const stepMs = 1

const pause = new Int32Array(new SharedArrayBuffer(4))

/** Of this process, by folder. */
const locks = new Map<string, OpenLock>()

export class OpenLock {
  readonly #folder: string
  readonly #waits: typeof waitsInitial
  readonly #libc = loadFcntl()
  readonly #fd: number
  #users = 0
  #writers = 0
  /** A write waited in vain; none waits until one had the lock. */
  #isStuck = false

  private constructor(folder: string, waits: typeof waitsInitial) {
    this.#folder = folder
    this.#waits = waits
    this.#fd = openLockFile(folder)
  }

  static of(path: string, waits = waitsInitial): OpenLock {
    const folder = resolve(path)
    const lock = locks.get(folder) ?? new OpenLock(folder, waits)
    locks.set(folder, lock)
    lock.#users++
    return lock
  }

  close(): void {
    this.#users--
    if (this.#users > 0) return
    locks.delete(this.#folder)
    closeSync(this.#fd)
  }

  /** Runs `open` while no process writes. Throws a `Fault` when one does so for too long. */
  whileAlone<T>(open: () => T): T {
    if (this.#users > 1) return open()
    const endMs = performance.now() + this.#waits.openMs
    while (!this.#set('exclusive')) {
      if (performance.now() > endMs)
        throw new Fault('registry', `another process writes to ${this.#folder} and does not end`)
      Atomics.wait(pause, 0, 0, stepMs)
    }
    try {
      return open()
    } finally {
      this.#set('unlocked')
    }
  }

  /** Runs a write while no process opens the registry. */
  async whileWriting<T>(write: () => Promise<T>): Promise<T> {
    const endMs = performance.now() + this.#waits.writeMs
    while (!this.#enter(endMs)) await new Promise((resolve) => setTimeout(resolve, stepMs))
    this.#writers++
    try {
      return await write()
    } finally {
      this.#leave()
    }
  }

  whileWritingSync<T>(write: () => T): T {
    const endMs = performance.now() + this.#waits.writeMs
    while (!this.#enter(endMs)) Atomics.wait(pause, 0, 0, stepMs)
    this.#writers++
    try {
      return write()
    } finally {
      this.#leave()
    }
  }

  /** Whether a write may begin: with the lock, or after a wait that is too long. */
  #enter(endMs: number): boolean {
    if (this.#writers > 0) return true
    if (this.#set('shared')) this.#isStuck = false
    else if (!this.#isStuck && performance.now() < endMs) return false
    else this.#isStuck = true
    return true
  }

  #leave(): void {
    this.#writers--
    if (this.#writers === 0) this.#set('unlocked')
  }

  #set(type: keyof typeof lockType): boolean {
    return this.#libc.fcntl(this.#fd, setLock, lockOf(lockType[type])) === 0
  }
}

/** A file that root makes belongs to the owner of the folder, as the others do. */
function openLockFile(folder: string): number {
  const { O_RDWR, O_CREAT, O_NOFOLLOW } = constants
  const fd = openSync(join(folder, 'open.lock'), O_RDWR | O_CREAT | O_NOFOLLOW, 0o600)
  const { uid, gid } = statSync(folder)
  if (process.geteuid?.() === 0 && fstatSync(fd).uid !== uid) fchownSync(fd, uid, gid)
  return fd
}

// Makes the data folders.
// One level at a time: where a level exists but cannot have subfolders (/proc), Node's own
// recursive mkdir loops forever and no signal is handled meanwhile.

/** Makes `path` and its missing parents, accessible to the owner only. Throws a readable Fault. */
export function makeFolder(path: string): void {
  if (isFolder(path)) return
  const parent = dirname(path)
  if (parent !== path) makeFolder(parent)
  try {
    mkdirSync(path, { mode: 0o700 })
  } catch (error) {
    // Another process may have made it first.
    if (isFolder(path)) return
    throw unusable(path, messageOf(error), error)
  }
}

function isFolder(path: string): boolean {
  let found: ReturnType<typeof statSync>
  try {
    found = statSync(path, { throwIfNoEntry: false })
  } catch (error) {
    throw unusable(path, messageOf(error), error)
  }
  if (found === undefined || found.isDirectory()) return found !== undefined
  throw unusable(path, 'it is a file')
}

function unusable(path: string, reason: string, cause?: unknown): Fault {
  const message = `cannot make the folder ${path}: ${reason}; set another with --data`
  return new Fault('data-folder', message, { cause })
}

// Detects a registry restored from an older copy, by the newest audit entry in
// `<data>/registry-head`. In an older copy revoked tokens would work again: no server
// starts on it until the operator accepts it by removing the file.

/** Why the registry must not be used; null when it may. */
export function problemOfRegistry(
  data: string,
  registry: { holds(head: AuditHead): boolean },
): string | null {
  const seen = readSeenHead(data)
  if (seen === null || registry.holds(seen)) return null
  return (
    `the registry lacks change ${seen.seq}, which a server on this folder has seen: it is an ` +
    'older copy, and tokens revoked since then would work again; restore the newer copy, or ' +
    `accept this one by removing ${fileIn(data)}`
  )
}

/** Replaces the file atomically. Throws when the write fails. */
export function writeSeenHead(data: string, { seq, hash }: AuditHead): void {
  const fresh = `${fileIn(data)}.${process.pid}`
  writeFileSync(fresh, `${seq} ${hash}\n`, { mode: 0o600, flush: true })
  renameSync(fresh, fileIn(data))
}

export function readSeenHead(data: string): AuditHead | null {
  let text: string
  try {
    text = readFileSync(fileIn(data), 'utf8')
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw new Fault('registry-head', messageOf(cause), { cause })
  }
  const [, seq, hash] = /^(\d+) ([0-9a-f]{64})\n$/.exec(text) ?? []
  if (seq === undefined || hash === undefined)
    throw new Fault('registry-head', `${fileIn(data)} is damaged: remove it and start again`)
  return { seq: Number(seq), hash }
}

function fileIn(data: string): string {
  return join(data, 'registry-head')
}
