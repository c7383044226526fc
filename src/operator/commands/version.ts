// `sluice version`: prints the version of the package.
import { accept } from '../../base/errors.ts'
import { packageVersion } from './package-version.ts'
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
