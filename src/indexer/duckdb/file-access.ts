// Sets owners and modes so that only the server and its query processes can open the index's
// files, whatever the mode of the parent folders. Thread: main of any process.
//
//                     not root        root
//   folders           0700            0710  root:reader
//   seg and tail      0600            0640  root:reader
//   everything else   0600            0600
//
// A server that is not root runs query processes as its own user. A server that is root runs them
// as the reader, a user and group without an account: they read what is shared, own nothing and
// can change nothing. DuckDB opens files by path, so file descriptors cannot be passed instead.
import { chmod, chown, mkdir, stat } from 'node:fs/promises'

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
