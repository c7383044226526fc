// Compiles src, workers and bench into dist/. Run by `npm install` (prepare) and before tests.
// Two builds at once (a test run beside a start) must not see each other's half-written files, so
// the build writes into a folder of its own and then swaps it in by rename.
import { execFileSync } from 'node:child_process'
import { chmodSync, existsSync, mkdtempSync, renameSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const bin = (name) => join(root, 'node_modules', '.bin', name)
const fresh = mkdtempSync(join(root, '.dist-'))

try {
  execFileSync(bin('tsc'), ['-p', join(root, 'tsconfig.build.json'), '--outDir', fresh], {
    cwd: root,
    stdio: 'inherit',
  })
  const main = join(fresh, 'src', 'main.js')
  if (existsSync(main)) chmodSync(main, 0o755)
  const dist = join(root, 'dist')
  const old = mkdtempSync(join(root, '.dist-'))
  if (existsSync(dist)) renameSync(dist, join(old, 'dist'))
  renameSync(fresh, dist)
  rmSync(old, { recursive: true, force: true })
} catch (error) {
  rmSync(fresh, { recursive: true, force: true })
  if (typeof error.status !== 'number') throw error
  process.exit(error.status)
}
