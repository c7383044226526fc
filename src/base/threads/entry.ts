// Finds the compiled entry file of a worker or child process by its name.
// Always the file in dist/workers, also when the caller itself runs uncompiled (in tests): not
// every Node version that we support can start a thread or process from TypeScript.
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { assert } from '../assert.ts'
import { packageRoot } from '../package-root.ts'

/** The file URL of `dist/workers/<name>.js`. */
export function workerEntry(name: string): URL {
  const path = join(packageRoot(), 'dist', 'workers', `${name}.js`)
  assert(existsSync(path), `worker ${name} is compiled (npm run build)`)
  return pathToFileURL(path)
}
