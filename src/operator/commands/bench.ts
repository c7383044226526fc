// Lists the verbs of `sluice bench`; `bench compare` shows two result files side by side, with an
// exit code for CI.

import { accept } from '../../base/errors.ts'
import {
  changeName,
  changePercent,
  changeRow,
  compareResults,
  worseThan,
} from '../../loadtest/compare.ts'
import { parsePercent } from '../../loadtest/quantities.ts'
import { readResult } from '../../loadtest/result.ts'
import { verdictLines } from '../../loadtest/result-text.ts'
import { benchLandVerb } from './bench-land.ts'
import { benchLoadVerb } from './bench-load.ts'
import { benchRaceVerb } from './bench-race.ts'
import { tableOf } from './output.ts'
import { flagOf, flagTable, misuse, type Verb } from './verb.ts'

const benchCompareVerb: Verb = {
  words: ['bench', 'compare'],
  summary: 'Compare two results of sluice bench, figure by figure.',
  examples: ['bench compare before.json after.json'],
  needsNoConfig: true,
  positionals: [
    { name: 'before', doc: 'result file (JSON) of the earlier run' },
    { name: 'after', doc: 'result file (JSON) of the later run' },
  ],
  flags: flagTable(`
    --fail-above <percent>  Exit 1 when a figure became worse by more than this and by more than
                            the noise.`),
  async run(call) {
    const [beforePath = '', afterPath = ''] = call.positionals
    const given = flagOf(call, 'fail-above')
    const limit = given === undefined ? null : parsePercent(given)
    if (given !== undefined && limit === null)
      return misuse(`--fail-above is a percentage such as 10%, not ${given}`)
    const before = readResult(beforePath)
    if (!before.ok) return before
    const after = readResult(afterPath)
    if (!after.ok) return after
    const compared = compareResults(before.value, after.value)
    if (!compared.ok) return compared
    const worse = limit === null ? [] : worseThan(compared.value, limit)
    const doubts = [
      ...verdictLines(before.value).map((line) => `before: ${line}`),
      ...verdictLines(after.value).map((line) => `after: ${line}`),
    ]
    const text = [
      tableOf(
        ['figure', 'before', 'after', 'change'],
        compared.value.changes.map(changeRow),
        'no figures',
      ),
      ...compared.value.settings.map((line) => `different setting: ${line}`),
      ...doubts,
      ...worse.map(
        (change) => `FAILED: ${changeName(change)} became worse by ${changePercent(change)}`,
      ),
    ].join('\n')
    const fails = limit !== null && (worse.length > 0 || doubts.length > 0)
    return accept({ json: { ...compared.value, worse, doubts }, text, exit: fails ? 1 : 0 })
  },
}

export const benchVerbs: readonly Verb[] = [
  benchRaceVerb,
  benchLandVerb,
  benchLoadVerb,
  benchCompareVerb,
]
