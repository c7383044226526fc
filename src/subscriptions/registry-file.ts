// Looks at the registry's file before LMDB maps it. Thread: main.
// A file that is none of LMDB's takes the whole process down with SIGSEGV inside native code, so
// what a restored backup or a wrong path may bring is told here, in words.
import { closeSync, existsSync, openSync, readSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { Fault } from '../base/errors.ts'
import { makeFolder } from './folder.ts'

// Each of the first two pages: 24 bytes of page head, then 0xBEEFC0DE; 24 bytes on, the page size.
const magic = 0xbeefc0de
const magicOffset = 24
const pageBytesOffset = 48
const pageBytesMax = 65_536

/** Makes the folder, readable by its owner alone, and refuses one that holds something else. */
export function prepareRegistryFolder(path: string): void {
  makeFolder(path)
  for (const name of ['data.mdb', 'lock.mdb']) {
    const found = statSync(join(path, name), { throwIfNoEntry: false })
    if (found !== undefined && !found.isFile())
      throw new Fault('registry', `${join(path, name)} is no file; move it away`)
  }
  const file = join(path, 'data.mdb')
  if (existsSync(file) && !isRegistryFile(file))
    throw new Fault('registry', `${file} is damaged or no registry; put a backup in its place`)
}

/** True for an LMDB file, and for the empty one that a killed first start may leave. */
function isRegistryFile(file: string): boolean {
  const bytes = Buffer.alloc(pageBytesMax + pageBytesOffset)
  const descriptor = openSync(file, 'r')
  try {
    const length = readSync(descriptor, bytes, 0, bytes.length, 0)
    if (length === 0) return true
    const pageBytes = bytes.readUInt32LE(pageBytesOffset)
    return (
      bytes.readUInt32LE(magicOffset) === magic &&
      pageBytes <= pageBytesMax &&
      bytes.readUInt32LE(pageBytes + magicOffset) === magic
    )
  } finally {
    closeSync(descriptor)
  }
}
