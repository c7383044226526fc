// `sluice version`: prints the version of the package.

import { readFileSync } from 'node:fs'
import { accept } from '../../base/errors.ts'
import type { Verb } from './verb.ts'

export const versionVerb: Verb = {
  words: ['version'],
  summary: 'Print the version; the same as -V and --version.',
  examples: ['version'],
  needsNoConfig: true,
  async run() {
    const version = packageVersion()
    return accept({ json: { version }, text: version })
  },
}

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
