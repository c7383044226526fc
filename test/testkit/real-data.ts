// Finds recorded real data for tests; it is not in the repository.
// The folder is named by SLUICE_TEST_DATA, else it is looked for at ../shared/data.
//
//   const recording = realData('execution/emn-30b-15m.snapshot.zst')
//   describe.skipIf(recording.isMissing)(recording.title('the recording'), () => { … })
import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

export interface RealData {
  readonly path: string
  readonly isMissing: boolean
  /** The name of a suite, with the reason when it is skipped. */
  title(name: string): string
}

export function realData(name: string): RealData {
  const root = fileURLToPath(new URL('../..', import.meta.url))
  const folder = process.env.SLUICE_TEST_DATA ?? resolve(root, '../shared/data')
  const path = resolve(folder, name)
  const isMissing = !existsSync(path)
  const reason = ` (skipped: no ${name}; SLUICE_TEST_DATA names its folder)`
  return { path, isMissing, title: (text) => (isMissing ? text + reason : text) }
}
