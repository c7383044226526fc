// Reads the version of the running package.
import { readFileSync } from 'node:fs'

/** Works from the compiled file and from the source. */
export function packageVersion(): string {
  for (const above of ['../../../package.json', '../../../../package.json']) {
    try {
      const manifest: unknown = JSON.parse(readFileSync(new URL(above, import.meta.url), 'utf8'))
      if (typeof manifest === 'object' && manifest !== null && 'version' in manifest)
        return String(manifest.version)
    } catch {
      // Not in this folder.
    }
  }
  return 'unknown'
}
