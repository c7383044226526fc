// A disk in memory, in place of node:fs for one folder: what the files of a process go through.
// Writes end at any byte, fail, or meet a full disk; a process dies within one. A power cut leaves
// of what was not written back any sectors, and of the changes of folders the first ones: as file
// systems with a journal do.
import fs from 'node:fs'
import fsPromises from 'node:fs/promises'
import { syncBuiltinESMExports } from 'node:module'
import { basename, dirname } from 'node:path'
import v8 from 'node:v8'

const sectorBytes = 512
/** Descriptors of one disk; those of real files are below. */
const descriptors = 1_000_000

interface File {
  bytes: Buffer
  /** What a power cut leaves at least. */
  durable: Buffer
}

interface FolderChange {
  readonly kind: 'created' | 'removed'
  readonly path: string
  readonly file: File
}

export class SimulatedDisk {
  readonly root: string
  readonly #random: () => number
  #files = new Map<string, File>()
  #changes: FolderChange[] = []
  readonly #open = new Map<number, { readonly path: string; readonly file: File }>()
  readonly #firstDescriptor: number
  #nextDescriptor: number
  /** Bytes that fit. */
  capacity = Number.POSITIVE_INFINITY
  /** That a call fails with EIO. */
  errorChance = 0
  /** After as many written bytes the process dies; null: never. */
  diesAfterBytes: number | null = null
  /** The process is dead: nothing it does arrives. */
  isDead = false

  /** Disks of one process have different numbers, from 1. */
  constructor(root: string, random: () => number, number = 1) {
    this.root = root
    this.#random = random
    this.#firstDescriptor = number * descriptors
    this.#nextDescriptor = this.#firstDescriptor
  }

  /** Whether a path or a descriptor is of this disk. */
  has(target: unknown): boolean {
    if (typeof target !== 'number') return this.#isFolder(String(target))
    return target > this.#firstDescriptor && target < this.#firstDescriptor + descriptors
  }

  get bytes(): number {
    return [...this.#files.values()].reduce((sum, { bytes }) => sum + bytes.length, 0)
  }

  /** Files with something that a power cut may take. */
  get dirty(): string[] {
    return [...this.#files].flatMap(([path, { bytes, durable }]) =>
      bytes.equals(durable) ? [] : [basename(path)],
    )
  }

  get hasFolderChanges(): boolean {
    return this.#changes.length > 0
  }

  get names(): string[] {
    return [...this.#files.keys()].map((path) => basename(path)).sort()
  }

  /** Everything is written back. */
  sync(): void {
    this.#changes = []
    for (const file of this.#files.values()) file.durable = file.bytes
  }

  /** Another process starts on it. */
  revive(): void {
    this.isDead = false
    this.diesAfterBytes = null
    this.#open.clear()
  }

  cutPower(): void {
    const kept = Math.floor(this.#random() * (this.#changes.length + 1))
    for (const { kind, path, file } of this.#changes.splice(0).slice(kept).reverse())
      if (kind === 'created') this.#files.delete(path)
      else this.#files.set(path, file)
    for (const file of this.#files.values()) {
      file.bytes = this.#torn(file)
      file.durable = file.bytes
    }
  }

  /** Of each sector what was there or what was to be there; as long as the one or the other. */
  #torn({ bytes, durable }: File): Buffer {
    if (bytes.equals(durable)) return bytes
    const longest = Math.max(bytes.length, durable.length)
    const shortest = Math.min(bytes.length, durable.length)
    const length = shortest + Math.floor(this.#random() * (longest - shortest + 1))
    const torn = Buffer.alloc(length)
    // Often only its end is missing.
    const chance = Math.max(0, 2 * this.#random() - 1)
    for (let at = 0; at < length; at += sectorBytes) {
      const source = this.#random() < chance ? durable : bytes
      if (at < source.length) source.copy(torn, at, at, Math.min(at + sectorBytes, length))
    }
    return torn
  }

  // Calls.

  openSync(path: string, flags: string): number {
    this.#work()
    const found = this.#files.get(path)
    if (found !== undefined && flags.includes('x')) throw problem('EEXIST', path)
    if (found === undefined && !flags.startsWith('w')) throw problem('ENOENT', path)
    const file = found ?? { bytes: Buffer.alloc(0), durable: Buffer.alloc(0) }
    if (found === undefined) {
      if (this.bytes >= this.capacity) throw problem('ENOSPC', path)
      this.#files.set(path, file)
      this.#changes.push({ kind: 'created', path, file })
    }
    this.#open.set(++this.#nextDescriptor, { path, file })
    return this.#nextDescriptor
  }

  closeSync(descriptor: number): void {
    this.#open.delete(descriptor)
    this.#work()
  }

  /** Takes as many bytes as fit, or as the process lives to write. */
  writeSync(descriptor: number, chunk: Uint8Array, at = 0): number {
    this.#work()
    const { file, path } = this.#fileOf(descriptor)
    const free = Math.max(0, this.capacity - this.bytes)
    const fits = Math.min(chunk.length - at, free)
    const lived = Math.min(fits, this.diesAfterBytes ?? Number.POSITIVE_INFINITY)
    if (lived > 0) file.bytes = Buffer.concat([file.bytes, chunk.subarray(at, at + lived)])
    if (this.diesAfterBytes !== null) {
      this.diesAfterBytes -= lived
      if (lived < fits || this.diesAfterBytes === 0) {
        this.isDead = true
        throw problem('EIO', path)
      }
    }
    if (fits === 0 && chunk.length > at) throw problem('ENOSPC', path)
    return lived
  }

  writevSync(descriptor: number, chunks: readonly Uint8Array[]): number {
    return this.writeSync(descriptor, Buffer.concat(chunks))
  }

  readSync(descriptor: number, into: Buffer, begin: number, length: number, at: number): number {
    this.#work()
    const { bytes } = this.#fileOf(descriptor).file
    return bytes.copy(into, begin, at, at + length)
  }

  fstatSync(descriptor: number): { size: number } {
    this.#work()
    return { size: this.#fileOf(descriptor).file.bytes.length }
  }

  ftruncateSync(descriptor: number, length: number): void {
    this.#work()
    const { file } = this.#fileOf(descriptor)
    file.bytes = Buffer.from(file.bytes.subarray(0, length))
  }

  existsSync(path: string): boolean {
    return !this.isDead && (this.#files.has(path) || this.#isFolder(path))
  }

  statSync(path: string): { isDirectory(): boolean; isFile(): boolean } {
    this.#work()
    const isFile = this.#files.has(path)
    return { isDirectory: () => !isFile, isFile: () => isFile }
  }

  readdirSync(folder: string): string[] {
    this.#work()
    const paths = [...this.#files.keys()].filter((path) => dirname(path) === folder)
    return paths.map((path) => basename(path))
  }

  mkdirSync(): void {
    this.#work()
  }

  rmSync(path: string, { force = false } = {}): void {
    this.#work()
    const gone = [...this.#files].filter(([one]) => one === path || one.startsWith(`${path}/`))
    if (gone.length === 0 && !force) throw problem('ENOENT', path)
    for (const [one, file] of gone) {
      this.#files.delete(one)
      this.#changes.push({ kind: 'removed', path: one, file })
    }
  }

  /** A handle of node:fs/promises. */
  async open(path: string, flags: string) {
    const descriptor = this.openSync(path, flags)
    return {
      read: async (into: Buffer, begin: number, length: number, at: number) => ({
        bytesRead: this.readSync(descriptor, into, begin, length, at),
      }),
      close: async () => this.closeSync(descriptor),
    }
  }

  #isFolder(path: string): boolean {
    return path === this.root || path.startsWith(`${this.root}/`)
  }

  #fileOf(descriptor: number) {
    const open = this.#open.get(descriptor)
    if (open === undefined) throw problem('EBADF', String(descriptor))
    return open
  }

  #work(): void {
    if (this.isDead || (this.errorChance > 0 && this.#random() < this.errorChance))
      throw problem('EIO', this.root)
  }
}

function problem(code: string, path: string): Error {
  return Object.assign(new Error(`${code}: simulated, ${path}`), { code })
}

const names = [
  ...['openSync', 'closeSync', 'writeSync', 'writevSync', 'readSync', 'fstatSync'],
  ...['ftruncateSync', 'existsSync', 'statSync', 'readdirSync', 'mkdirSync', 'rmSync'],
] as const

type Call = (...args: unknown[]) => unknown

/** Runs `body` with the folder of `disk` in memory; everything else is as it is. */
export async function onDisk<T>(disk: SimulatedDisk, body: () => Promise<T>): Promise<T> {
  const real = Object.fromEntries(names.map((name) => [name, Reflect.get(fs, name) as Call]))
  const realOpen = Reflect.get(fsPromises, 'open') as Call
  const redirected = (name: string, otherwise: Call): Call => {
    const here = Reflect.get(disk, name) as Call
    return (...args) => (disk.has(args[0]) ? here.apply(disk, args) : otherwise(...args))
  }
  for (const name of names) Object.assign(fs, { [name]: redirected(name, real[name]!) })
  Object.assign(fsPromises, { open: redirected('open', realOpen) })
  syncBuiltinESMExports()
  try {
    return await body()
  } finally {
    Object.assign(fs, real)
    Object.assign(fsPromises, { open: realOpen })
    syncBuiltinESMExports()
  }
}

/** Runs `body` with a serialization of one length: V8's depends on how it holds a number. */
export async function withPlainSerialization<T>(body: () => Promise<T>): Promise<T> {
  const { serialize, deserialize } = v8
  Object.assign(v8, {
    serialize: (value: unknown) => Buffer.from(JSON.stringify(value, tagged)),
    deserialize: (bytes: Buffer) => JSON.parse(bytes.toString(), untagged),
  })
  syncBuiltinESMExports()
  try {
    return await body()
  } finally {
    Object.assign(v8, { serialize, deserialize })
    syncBuiltinESMExports()
  }
}

function tagged(this: Record<string, unknown>, key: string, shown: unknown): unknown {
  // Buffers are shown as objects.
  const value = this[key]
  if (value instanceof Uint8Array) return { $bytes: Buffer.from(value).toString('latin1') }
  if (typeof value === 'bigint') return { $bigint: String(value) }
  if (typeof value === 'object' && value !== null && !isPlain(value))
    throw new Error(`${value.constructor.name} is not serialized here`)
  return shown
}

function isPlain(value: object): boolean {
  return Array.isArray(value) || Object.getPrototypeOf(value) === Object.prototype
}

function untagged(_key: string, value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value
  if ('$bytes' in value) return Buffer.from(String(value.$bytes), 'latin1')
  return '$bigint' in value ? BigInt(String(value.$bigint)) : value
}
