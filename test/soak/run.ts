// `npm run soak -- --for 90m --out <folder>`: two whole servers, a default start and one at 1,000
// transactions a second, with bounds lowered so that all are full after `--fill` (20 minutes, or a
// fifth of the time if that is less), under a modest load on every endpoint.
// Every 10 s memory, handles and descriptors of every process are sampled and written; at the end
// a table has the slope of each series since all bounds were full, with its confidence interval.
// Exit 1 if one rises, a bound was not reached, memory exceeded the sum of its bounds, or a load
// stopped being answered.
//   --only name     one of the servers
//   --read folder   judges the samples of an earlier run again, or of one under way
// SIGINT ends it early, with its report.
import { mkdirSync } from 'node:fs'
import { resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { parseDuration } from '../../src/base/duration.ts'
import { judge, readSamples, reportOf } from './report.ts'
import { settingsOf } from './settings.ts'
import { soak } from './soak.ts'

const fillMsMax = 20 * 60_000

const { values } = parseArgs({
  options: {
    for: { type: 'string', default: '90m' },
    fill: { type: 'string' },
    every: { type: 'string', default: '10s' },
    out: { type: 'string' },
    only: { type: 'string' },
    read: { type: 'string' },
  },
})

function ms(name: 'for' | 'fill' | 'every', text: string): number {
  const parsed = parseDuration(text)
  if (parsed !== null && parsed > 0) return parsed
  console.error(`--${name} is a duration such as 90m or 6h`)
  process.exit(2)
}

const forMs = ms('for', values.for)
const fillMs = values.fill === undefined ? Math.min(fillMsMax, forMs / 5) : ms('fill', values.fill)
const out = values.read ?? values.out
if (out === undefined) {
  console.error('--out names the folder of samples and plots')
  process.exit(2)
}
const folder = resolve(out)
mkdirSync(folder, { recursive: true })
const settings = settingsOf(fillMs).filter(({ name }) => (values.only ?? name) === name)
if (values.read === undefined) {
  const ended = new AbortController()
  process.once('SIGINT', () => ended.abort())
  const plan = { forMs, fillMs, everyMs: ms('every', values.every), folder, signal: ended.signal }
  await Promise.all(settings.map((setting) => soak(setting, plan)))
}
const runs = readSamples(folder)
const verdicts = runs.map((run) => judge(run))
console.log(reportOf(folder, runs, verdicts))
process.exit(verdicts.every(({ problems }) => problems.length === 0) ? 0 : 1)
