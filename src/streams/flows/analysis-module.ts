// Loads the compiled analysis module, once per process; workers get it by value.
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { packageRoot } from '../../base/threads/entry.ts'

/** Always the compiled file in dist/, also when the caller runs uncompiled (in tests). */
export async function loadAnalysisModule(): Promise<WebAssembly.Module> {
  const path = join(packageRoot(), 'dist', 'src', 'streams', 'analysis', 'analysis.wasm')
  return new WebAssembly.Module(await readFile(path))
}
