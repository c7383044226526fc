// Makes the folders that everything kept lies in. Thread: main.
// Called by lock.ts and registry-file.ts. One level at a time: where a level exists but takes no
// folders (/proc), Node's own recursive mkdir tries for ever and no signal is heard meanwhile.
import { mkdirSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { Fault, messageOf } from '../base/errors.ts'

/** Makes `path` and what is missing above it, for its owner alone. Throws a Fault in words. */
export function makeFolder(path: string): void {
  if (isFolder(path)) return
  const parent = dirname(path)
  if (parent !== path) makeFolder(parent)
  try {
    mkdirSync(path, { mode: 0o700 })
  } catch (error) {
    // Another process may have been faster.
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
    `${path} cannot be made a folder: ${reason}; name another with --data`,
    {
      cause,
    },
  )
}
