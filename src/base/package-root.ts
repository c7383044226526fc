// Finds the package's own folder and its workers: compiled files lie in dist, whoever asks.
import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { assert } from './errors.ts'

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

/**
 * The file URL of `dist/workers/<name>.js`, also when the caller itself runs uncompiled (in tests):
 * not every Node version that we support can start a thread or process from TypeScript.
 */
export function workerEntry(name: string): URL {
  const path = join(packageRoot(), 'dist', 'workers', `${name}.js`)
  assert(existsSync(path), `worker ${name} is compiled (npm run build)`)
  return pathToFileURL(path)
}
