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
import { closeSync, constants, fchownSync, fstatSync, openSync, statSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { Fault } from '../../base/errors.ts'
import { loadFcntl, lockOf, lockType, setLock } from './lock.ts'

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
    this.#fd = openLock(folder)
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
function openLock(folder: string): number {
  const { O_RDWR, O_CREAT, O_NOFOLLOW } = constants
  const fd = openSync(join(folder, 'open.lock'), O_RDWR | O_CREAT | O_NOFOLLOW, 0o600)
  const { uid, gid } = statSync(folder)
  if (process.geteuid?.() === 0 && fstatSync(fd).uid !== uid) fchownSync(fd, uid, gid)
  return fd
}
