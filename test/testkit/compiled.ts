// Lets tests import src and bench as the build compiled them, which costs half of what vitest takes
// to transform them once more for every project; workers and commands run the same files.
import { existsSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import type { Plugin } from 'vitest/config'
import { root } from './tree.ts'

/** Compiled, and not bundled with what they import: a module must not be there twice. */
const folders = ['src', 'bench']

/** Loaded by Node itself. */
export const inDist = /\/dist\//

export function compiled(): Plugin {
  return {
    name: 'compiled',
    enforce: 'pre',
    resolveId(source, importer) {
      if (!source.startsWith('.') || !source.endsWith('.ts') || importer === undefined) return null
      const path = relative(root, resolve(dirname(importer), source))
      if (!folders.some((folder) => path.startsWith(`${folder}/`))) return null
      const file = join(root, 'dist', path.replace(/\.ts$/, '.js'))
      return existsSync(file) ? file : null
    },
  }
}
