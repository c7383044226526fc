// Keeps processes from opening the registry while another one writes to it.
// LMDB sets the shared number of the newest transaction when an environment is opened, to what it
// had read a moment before: a transaction that was committed in between is written over by the next
// one, although it was acknowledged. So an open has the lock alone, and writes share it.
//
//   open:  exclusive ──►│ open, convert │◄── released
//   write: shared, counted ──►│ commit │◄── released with the last one
//
// A stuck process does not stop the others: after a second they go on without the lock.
// The lock is on `<registry>/open.lock`, released by the kernel when its process ends. A process
// that has the registry open already does not open the environment again, and needs no lock.
import { closeSync, constants, openSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { type Fcntl, loadFcntl, lockOf, lockType, setLock } from './lock.ts'

const waitMsMaxInitial = 1_000
const stepMs = 1

const pause = new Int32Array(new SharedArrayBuffer(4))

/** Of this process, by folder. */
const locks = new Map<string, OpenLock>()

export class OpenLock {
  readonly #folder: string
  readonly #fd: number
  readonly #libc: Fcntl
  #users = 0
  #writers = 0

  readonly #waitMsMax: number

  private constructor(folder: string, waitMsMax: number) {
    this.#waitMsMax = waitMsMax
    const flags = constants.O_RDWR | constants.O_CREAT | constants.O_NOFOLLOW
    this.#folder = folder
    this.#fd = openSync(join(folder, 'open.lock'), flags, 0o600)
    this.#libc = loadFcntl()
  }

  static of(path: string, waitMsMax = waitMsMaxInitial): OpenLock {
    const folder = resolve(path)
    const lock = locks.get(folder) ?? new OpenLock(folder, waitMsMax)
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

  /** Runs `open` while no process writes. */
  whileAlone<T>(open: () => T): T {
    if (this.#users > 1) return open()
    this.#waitFor('exclusive')
    try {
      return open()
    } finally {
      this.#set('unlocked')
    }
  }

  /** Runs a write while no process opens the registry. */
  async whileWriting<T>(write: () => Promise<T>): Promise<T> {
    const endMs = performance.now() + this.#waitMsMax
    while (!this.#enter() && performance.now() < endMs)
      await new Promise((resolve) => setTimeout(resolve, stepMs))
    this.#writers++
    try {
      return await write()
    } finally {
      this.#leave()
    }
  }

  whileWritingSync<T>(write: () => T): T {
    if (this.#writers === 0) this.#waitFor('shared')
    this.#writers++
    try {
      return write()
    } finally {
      this.#leave()
    }
  }

  #enter(): boolean {
    return this.#writers > 0 || this.#set('shared')
  }

  #leave(): void {
    this.#writers--
    if (this.#writers === 0) this.#set('unlocked')
  }

  #waitFor(type: 'exclusive' | 'shared'): void {
    const endMs = performance.now() + this.#waitMsMax
    while (!this.#set(type) && performance.now() < endMs) Atomics.wait(pause, 0, 0, stepMs)
  }

  #set(type: keyof typeof lockType): boolean {
    return this.#libc.fcntl(this.#fd, setLock, lockOf(lockType[type])) === 0
  }
}
