// Who may open the files of the embedded index: the server and its query processes, nobody else,
// whatever the mode of the folders above. Thread: main of any process.
//
//                     not root        root
//   folders           0700            0710  root:reader
//   files of a view   0600            0640  root:reader
//   everything else   0600            0600
//
// A server that is not root has query processes of its own user. One that is root starts them as
// the reader, a user and group that have no account: they read what they are given, own nothing
// and can change nothing. DuckDB opens files by path, so descriptors cannot be handed over.
import { chmod, chown, mkdir, stat } from 'node:fs/promises'

/**
 * Number of the reader's user and group ("slui"): outside the ranges of accounts, of service
 * managers, of containers and of subordinate ids. A user namespace may lack it; there it is the
 * usual number of `nobody`.
 */
const readerIds = [0x736c_7569, 65_534] as const

/** Makes a folder that query processes may enter. */
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

/** Keeps a file to the server. */
export async function hideFile(path: string): Promise<void> {
  await chmod(path, 0o600)
}

/** The user and group that a query process of this folder runs as; null when it is our own. */
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
