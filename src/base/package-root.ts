// Finds the package's own folder: compiled files lie in dist, whoever asks.
import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { assert } from './assert.ts'

/** The folder of package.json, from `dist/chunks` as well as from `src/base`. */
export function packageRoot(): string {
  let folder = dirname(fileURLToPath(import.meta.url))
  while (!existsSync(join(folder, 'package.json'))) {
    const parent = dirname(folder)
    assert(parent !== folder, 'the package has a package.json')
    folder = parent
  }
  return folder
}
