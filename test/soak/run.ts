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
import { existsSync, mkdirSync } from 'node:fs'
import { resolve } from 'node:path'
import { durationFlag, exitWith, readFlags, refuseArguments } from '../testkit/flags.ts'
import { judge, readSamples, reportOf } from './report.ts'
import { settingsOf } from './settings.ts'
import { soak } from './soak.ts'

const fillMsMax = 20 * 60_000

const { values, positionals } = readFlags({
  for: { type: 'string', default: '90m' },
  fill: { type: 'string' },
  every: { type: 'string', default: '10s' },
  out: { type: 'string' },
  only: { type: 'string' },
  read: { type: 'string' },
})
refuseArguments(positionals)
const forMs = durationFlag('for', values.for)
const everyMs = durationFlag('every', values.every)
const fillMs =
  values.fill === undefined ? Math.min(fillMsMax, forMs / 5) : durationFlag('fill', values.fill)
const out = values.read ?? values.out ?? exitWith('--out names the folder of samples and plots')
const folder = resolve(out)
if (values.read === undefined) mkdirSync(folder, { recursive: true })
else if (!existsSync(folder)) exitWith(`no folder ${folder}`)
const all = settingsOf(fillMs)
const settings = all.filter(({ name }) => (values.only ?? name) === name)
if (settings.length === 0)
  exitWith(`--only is one of ${all.map(({ name }) => `"${name}"`).join(', ')}`)
if (values.read === undefined) {
  const ended = new AbortController()
  process.once('SIGINT', () => ended.abort())
  const plan = { forMs, fillMs, everyMs, folder, signal: ended.signal }
  await Promise.all(settings.map((setting) => soak(setting, plan)))
}
const runs = readSamples(folder)
if (runs.length === 0) exitWith(`no samples in ${folder}`)
const verdicts = runs.map((run) => judge(run))
console.log(reportOf(folder, runs, verdicts))
process.exit(verdicts.every(({ problems }) => problems.length === 0) ? 0 : 1)
