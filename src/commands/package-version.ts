// The version of the package that runs. Thread: main.
import { readFileSync } from 'node:fs'

/** Found above the compiled file and above the source alike. */
export function packageVersion(): string {
  for (const above of ['../../package.json', '../../../package.json']) {
    try {
      const manifest: unknown = JSON.parse(readFileSync(new URL(above, import.meta.url), 'utf8'))
      if (typeof manifest === 'object' && manifest !== null && 'version' in manifest)
        return String(manifest.version)
    } catch {
      // Not at this height.
    }
  }
  return 'unknown'
}
