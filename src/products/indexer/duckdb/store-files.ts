// The files of the embedded index: what their names mean, and the list that readers go by.
// Thread: main of any process. The writer writes here; query processes only read.
//
//   hot-7.duckdb       what is being written; the writer alone has it open
//   seg-1-6-0.duckdb   sealed: rows of the hot files 1 to 6, never changed again; 0 grows when
//                      rows were taken back and the file was written anew
//   tail-7-3.duckdb    rows of hot file 7 as readers see them; number 3 of its kind
//   new-*.duckdb       on its way to one of these names; left over after a crash
//   readable.json      which files make up one whole view; replaced by rename
//
// A sealed file whose span lies within another's has been merged into it, and one of the same span
// with a higher last number has taken its place.
import { open, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type TableName, tableNames } from '../tables.ts'
import { hideFile, openFolder, shareFile } from './file-access.ts'

export interface Sealed {
  readonly name: string
  /** First and last hot file in it. */
  readonly from: number
  readonly to: number
  readonly revision: number
  readonly bytes: number
  /** When its newest row was written, about. */
  readonly sealedAtMs: number
}

/** One file of the view, and the tables that have rows in it. */
export interface ReadableFile {
  readonly name: string
  readonly tables: readonly TableName[]
}

export interface Readable {
  /** Grows with each change. */
  readonly version: number
  readonly files: readonly ReadableFile[]
}

export const readableName = 'readable.json'
export const nothingReadable: Readable = { version: 0, files: [] }

export function hotName(number: number): string {
  return `hot-${number}.duckdb`
}

export type SealedSpan = Pick<Sealed, 'from' | 'to' | 'revision'>

export function sealedName({ from, to, revision }: SealedSpan): string {
  return `seg-${from}-${to}-${revision}.duckdb`
}

export function tailName(hot: number, number: number): string {
  return `tail-${hot}-${number}.duckdb`
}

export interface Listing {
  /** Numbers of the hot files, ascending. */
  readonly hot: readonly number[]
  /** Sealed files that make up the past, ascending, without those merged into others. */
  readonly sealed: readonly Sealed[]
  /** Files that nothing needs any more. */
  readonly waste: readonly string[]
}

/** What is in the folder; makes the folder when there is none. */
export async function listFolder(folder: string): Promise<Listing> {
  await openFolder(folder)
  const names = await readdir(folder)
  for (const name of names) await setAccess(folder, name)
  const hot: number[] = []
  const waste: string[] = []
  const sealed: Sealed[] = []
  for (const name of names) {
    const asHot = /^hot-(\d+)\.duckdb$/.exec(name)
    const asSealed = /^seg-(\d+)-(\d+)-(\d+)\.duckdb$/.exec(name)
    if (asHot !== null) hot.push(Number(asHot[1]))
    else if (asSealed !== null) {
      const [from, to, revision] = asSealed.slice(1).map(Number) as [number, number, number]
      sealed.push(await describe(folder, { from, to, revision }))
    } else if (/^(new|tail)-.*\.duckdb(\.wal)?$/.test(name)) waste.push(name)
  }
  const isReplaced = (file: Sealed) => sealed.some((other) => replaces(other, file))
  waste.push(...sealed.filter(isReplaced).map((file) => file.name))
  const kept = sealed.filter((file) => !isReplaced(file)).sort((a, b) => a.from - b.from)
  return { hot: hot.sort((a, b) => a - b), sealed: kept, waste }
}

/** What an earlier version or another user left open is closed. */
async function setAccess(folder: string, name: string): Promise<void> {
  const path = join(folder, name)
  if (/^(seg|tail)-.*\.duckdb$/.test(name)) await shareFile(folder, path)
  else if (/\.duckdb(\.wal)?$/.test(name) || name === readableName) await hideFile(path)
}

export async function describe(folder: string, span: SealedSpan): Promise<Sealed> {
  const name = sealedName(span)
  const { size, mtimeMs } = await stat(join(folder, name))
  return { name, ...span, bytes: size, sealedAtMs: mtimeMs }
}

function replaces(other: Sealed, file: Sealed): boolean {
  if (other === file || other.from > file.from || other.to < file.to) return false
  const isSameSpan = other.from === file.from && other.to === file.to
  return !isSameSpan || other.revision > file.revision
}

/** Gives a finished file its name, so that it is there after a crash of the machine too. */
export async function keepAs(folder: string, made: string, name: string): Promise<void> {
  await shareFile(folder, join(folder, made))
  await rename(join(folder, made), join(folder, name))
  await syncFolder(folder)
}

export async function writeReadable(folder: string, readable: Readable): Promise<void> {
  const made = join(folder, `new-${readableName}`)
  await writeFile(made, JSON.stringify(readable), { mode: 0o600 })
  await rename(made, join(folder, readableName))
}

/** The view of now; an empty one before the first write. */
export async function readReadable(folder: string): Promise<Readable> {
  try {
    return readableFrom(await readFile(join(folder, readableName), 'utf8'))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return nothingReadable
    throw error
  }
}

export function readableFrom(text: string): Readable {
  // Reason for the cast: the writer of this file is ours, and its names are checked here.
  const { version, files } = JSON.parse(text) as Readable
  const known = new Set<string>(tableNames)
  return {
    version,
    files: files
      .filter((file) => /^(seg-\d+-\d+|tail-\d+)-\d+\.duckdb$/.test(file.name))
      .map((file) => ({ name: file.name, tables: file.tables.filter((t) => known.has(t)) })),
  }
}

export async function removeFiles(folder: string, names: readonly string[]): Promise<void> {
  for (const name of names) await rm(join(folder, name), { force: true })
}

async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}
