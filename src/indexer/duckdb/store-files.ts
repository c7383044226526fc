// Names, lists and renames the files of the embedded index, and reads and writes its snapshot.
// Thread: main of any process. Only the writer process writes; query processes only read.
//
//   hot-7.duckdb       receives writes; only the writer has it open
//   seg-1-6-0.duckdb   sealed and immutable: rows of the hot files 1 to 6; the last number is the
//                      revision, which grows when rows are deleted and the file is rewritten
//   new-*.duckdb       unfinished file that is renamed when complete; left over after a crash
//   tail-7-3.duckdb    copied rows of hot file 7, by version 0.2.0; deleted after the opening
//   readable.json      snapshot: the files that together contain all rows; replaced by rename
//
// A sealed file whose span lies within another's has been merged into it. Of two files with the
// same span, the one with the higher revision is valid.
import {
  chmod,
  chown,
  mkdir,
  open,
  readdir,
  readFile,
  rename,
  rm,
  stat,
  writeFile,
} from 'node:fs/promises'
import { join } from 'node:path'
import type { DuckDBConnection } from '@duckdb/node-api'
import { Fault, messageOf } from '../../base/errors.ts'
import { duckdbString } from '../clickhouse/sql/lexer.ts'
import { type TableName, tableNames } from '../tables.ts'

export interface Sealed {
  readonly name: string
  /** Numbers of the first and the last hot file in it. */
  readonly from: number
  readonly to: number
  readonly revision: number
  readonly bytes: number
  /** Approximate time at which its newest row was written. */
  readonly sealedAtMs: number
}

/** One file of a snapshot, and the tables that have rows in it. */
export interface SnapshotFile {
  readonly name: string
  readonly tables: readonly TableName[]
  /** Of each of them; absent in a list of an earlier version. */
  readonly rows?: readonly number[]
}

/** The files that together contain all rows of the index at one moment. */
export interface StoreSnapshot {
  /** Increases with each change. */
  readonly version: number
  readonly files: readonly SnapshotFile[]
}

export const snapshotName = 'readable.json'
export const emptySnapshot: StoreSnapshot = { version: 0, files: [] }

export function hotName(number: number): string {
  return `hot-${number}.duckdb`
}

export type SealedSpan = Pick<Sealed, 'from' | 'to' | 'revision'>

export function sealedName({ from, to, revision }: SealedSpan): string {
  return `seg-${from}-${to}-${revision}.duckdb`
}

export interface Listing {
  /** Numbers of the hot files, ascending. */
  readonly hot: readonly number[]
  /** Valid sealed files, ascending, without those merged into others. */
  readonly sealed: readonly Sealed[]
  /** Names of files that are no longer needed. */
  readonly obsolete: readonly string[]
}

/** Lists the folder; creates it when it is missing. */
export async function listFolder(folder: string): Promise<Listing> {
  await openFolder(folder)
  const names = await readdir(folder)
  for (const name of names) await setAccess(folder, name)
  const hot: number[] = []
  const obsolete: string[] = []
  const sealed: Sealed[] = []
  for (const name of names) {
    const asHot = /^hot-(\d+)\.duckdb$/.exec(name)
    const asSealed = /^seg-(\d+)-(\d+)-(\d+)\.duckdb$/.exec(name)
    if (asHot !== null) hot.push(Number(asHot[1]))
    else if (asSealed !== null) {
      const [from, to, revision] = asSealed.slice(1).map(Number) as [number, number, number]
      sealed.push(await describe(folder, { from, to, revision }))
    } else if (/^(new|tail)-.*\.duckdb(\.wal)?$/.test(name)) obsolete.push(name)
  }
  const isReplaced = (file: Sealed) => sealed.some((other) => replaces(other, file))
  obsolete.push(...sealed.filter(isReplaced).map((file) => file.name))
  const kept = sealed.filter((file) => !isReplaced(file)).sort((a, b) => a.from - b.from)
  return { hot: hot.sort((a, b) => a - b), sealed: kept, obsolete }
}

/** Resets file modes that an earlier version or another user left too open. */
async function setAccess(folder: string, name: string): Promise<void> {
  const path = join(folder, name)
  if (/^(seg|tail)-.*\.duckdb$/.test(name)) await shareFile(folder, path)
  else if (/\.duckdb(\.wal)?$/.test(name) || name === snapshotName)
    // A log disappears when a sink that is closing has merged it into its file.
    await hideFile(path).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOENT') throw error
    })
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

/** Opens a file in the engine. Rejects with a Fault that names the file and the reason. */
export async function attach(
  connection: DuckDBConnection,
  { folder, name }: { readonly folder: string; readonly name: string },
  catalog: string,
  options = '',
): Promise<void> {
  try {
    await connection.run(`ATTACH ${duckdbString(join(folder, name))} AS ${catalog} ${options}`)
  } catch (error) {
    const why = `index file ${name} cannot be opened: ${messageOf(error)}`
    throw new Fault('index-file', why, { cause: error, retryable: true })
  }
}

/** Renames a finished file and lets query processes read it. */
export async function shareAs(folder: string, made: string, name: string): Promise<void> {
  await shareFile(folder, join(folder, made))
  await rename(join(folder, made), join(folder, name))
}

export async function writeSnapshot(folder: string, snapshot: StoreSnapshot): Promise<void> {
  const made = join(folder, `new-${snapshotName}`)
  await writeFile(made, JSON.stringify(snapshot), { mode: 0o600, flush: true })
  await rename(made, join(folder, snapshotName))
}

/** The snapshot on disk; an empty one before the first write. */
export async function readSnapshot(folder: string): Promise<StoreSnapshot> {
  try {
    return parseSnapshot(await readFile(join(folder, snapshotName), 'utf8'))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return emptySnapshot
    throw error
  }
}

export function parseSnapshot(text: string): StoreSnapshot {
  // Reason for the cast: our writer process wrote this, and file names are checked here.
  const { version, files } = JSON.parse(text) as StoreSnapshot
  const known = new Set<string>(tableNames)
  return {
    version,
    files: files
      .filter((file) => /^(seg-\d+-\d+|tail-\d+)-\d+\.duckdb$/.test(file.name))
      .map(({ name, tables, rows }) => ({
        name,
        tables: tables.filter((table) => known.has(table)),
        ...(rows && { rows: rows.filter((_, at) => known.has(tables[at]!)) }),
      })),
  }
}

export async function removeFiles(folder: string, names: readonly string[]): Promise<void> {
  for (const name of names) await rm(join(folder, name), { force: true })
}

/** After this the names of the files survive a crash of the machine. */
export async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

// Sets owners and modes so that only the server and its query processes can open the index's
// files, whatever the mode of the parent folders.
//
//                     not root        root
//   folders           0700            0710  root:reader
//   seg and tail      0600            0640  root:reader
//   everything else   0600            0600
//
// A server that is not root runs query processes as its own user. A server that is root runs them
// as the reader, a user and group without an account: they read what is shared, own nothing and
// can change nothing. DuckDB opens files by path, so file descriptors cannot be passed instead.

/**
 * User and group id of the reader ("slui"): outside the ranges of accounts, of service managers,
 * of containers and of subordinate ids. A user namespace may lack it; the fallback is the usual
 * id of `nobody`.
 */
const readerIds = [0x736c_7569, 65_534] as const

/** Creates a folder that query processes may enter. */
export async function openFolder(path: string): Promise<void> {
  await mkdir(path, { recursive: true, mode: 0o700 })
  if (isRoot()) await giveToReader(path)
  await chmod(path, isRoot() ? 0o710 : 0o700)
}

/** Lets query processes read a file of `folder`. */
export async function shareFile(folder: string, path: string): Promise<void> {
  if (isRoot()) await chown(path, 0, await readerOf(folder))
  await chmod(path, isRoot() ? 0o640 : 0o600)
}

/** Makes a file readable by the server only. */
export async function hideFile(path: string): Promise<void> {
  await chmod(path, 0o600)
}

/** The uid and gid that a query process of this folder runs as; null for the server's own. */
export async function stepDownTo(folder: string): Promise<number | null> {
  return isRoot() ? readerOf(folder) : null
}

function isRoot(): boolean {
  return process.getuid?.() === 0
}

async function readerOf(folder: string): Promise<number> {
  return (await stat(folder)).gid
}

async function giveToReader(path: string): Promise<void> {
  const [own, nobody] = readerIds
  await chown(path, 0, own).catch(() => chown(path, 0, nobody))
}
