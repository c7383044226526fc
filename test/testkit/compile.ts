// Compiles once before any test: workers and the command run in tests as the compiled files.
import { execFileSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'

export default function setup(): void {
  const build = fileURLToPath(new URL('../../scripts/build.mjs', import.meta.url))
  execFileSync(process.execPath, [build], { stdio: 'inherit' })
}
