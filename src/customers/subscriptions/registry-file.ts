// Checks the registry file before LMDB maps it.
// A file that is not an LMDB file crashes the process with SIGSEGV in native code, so a bad
// backup or a wrong path is detected and reported here.
import { closeSync, existsSync, openSync, readSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { Fault } from '../../base/errors.ts'
import { makeFolder } from './folder.ts'

// The first two pages each: 24 bytes of header, then 0xBEEFC0DE; the page size 24 bytes after it.
const magic = 0xbeefc0de
const magicOffset = 24
const pageBytesOffset = 48
const pageBytesMax = 65_536

/** Makes the folder, accessible to its owner only. Throws when it contains something else. */
export function prepareRegistryFolder(path: string): void {
  makeFolder(path)
  for (const name of ['data.mdb', 'lock.mdb']) {
    const found = statSync(join(path, name), { throwIfNoEntry: false })
    if (found !== undefined && !found.isFile())
      throw new Fault('registry', `${join(path, name)} is not a file; move it away`)
  }
  const file = join(path, 'data.mdb')
  if (existsSync(file) && !isRegistryFile(file))
    throw new Fault('registry', `${file} is damaged or not a registry; restore a backup`)
}

/** True for an LMDB file, and for the empty file that a killed first start may leave. */
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
