// Makes the data folders.
// One level at a time: where a level exists but cannot have subfolders (/proc), Node's own
// recursive mkdir loops forever and no signal is handled meanwhile.
import { mkdirSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { Fault, messageOf } from '../../base/errors.ts'

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
  return new Fault(
    'data-folder',
    `cannot make the folder ${path}: ${reason}; set another with --data`,
    {
      cause,
    },
  )
}
