// Results of a bench run: a table on stdout, a JSON file, and two such files side by side.
// Thread: main of the bench process.
import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { packageRoot } from '../../src/base/package-root.ts'
import { type Compared, changeRow, compareResults } from '../../src/loadtest/compare.ts'
import { plotSvg } from '../../src/loadtest/plot.ts'
import { aligned, type Figure, thisMachine } from '../../src/loadtest/result.ts'
import type { BenchResult, GoalResult, Row, StoredResult } from './bench.ts'
import { bendNotes, growthCells, growthPlot, linesOf } from './growth-lines.ts'
import { boundOf, labelOf, unitOf } from './summary.ts'

export function formatResult(result: BenchResult): string {
  const head = ['', 'ops/s', 'p50 us', 'p99 us', 'p99.9 us', 'spread', 'ratio']
  if (result.rows.some(({ bytesPerOp }) => bytesPerOp !== undefined)) head.push('bytes/op')
  if (result.rows.some(({ cpuUsPerOp }) => cpuUsPerOp !== undefined)) head.push('cpu us/op')
  const lines = linesOf(result)
  return [
    `${result.name}: ${result.question}`,
    ...table(lines.length > 0 ? growthCells(lines) : [head, ...result.rows.map(cells)]),
    ...result.goals.map(formatGoal),
    ...[...bendNotes(lines), ...result.notes].map((note) => `  note: ${note}`),
    '',
  ].join('\n')
}

/** Writes `<folder>/<name>.json`, and its plot as `.svg` if it has one; returns the path. */
export function storeResult(
  result: BenchResult,
  folder: string,
  config: Readonly<Record<string, unknown>>,
): string {
  mkdirSync(folder, { recursive: true })
  const stored: StoredResult = { ...result, ...thisMachine(), commit: commitOf(), config }
  const path = join(folder, `${result.name}.json`)
  writeFileSync(path, `${JSON.stringify(stored, null, 2)}\n`)
  if (result.axis !== undefined)
    writeFileSync(path.replace(/json$/, 'svg'), plotSvg(growthPlot(result)))
  return path
}

/** Two result files side by side: ratios, and p50, which means something on one machine only. */
export function formatComparison(beforePath: string, afterPath: string): string {
  const [before, after] = [readResult(beforePath), readResult(afterPath)]
  const compared = compareResults(comparable(before), comparable(after))
  if (!compared.ok) return compared.refusal.message
  const known = new Set(before.rows.map(({ name }) => name))
  const fresh = after.rows.filter(({ name }) => !known.has(name))
  return [
    `${before.name} at ${before.commit} and at ${after.commit}`,
    ...table([['', 'before', 'after', 'change'], ...compared.value.changes.map(changeRow)]),
    ...fresh.map(({ name, ratio }) => `  new: ${name}, ratio ${ratioText(ratio)}`),
  ].join('\n')
}

function comparable({ name, rows }: StoredResult): Compared {
  const figures = rows.flatMap(({ name: of, ratio, latencyUs }): Figure[] => {
    const value = Number.isFinite(ratio) ? ratio : null
    const p50 = latencyUs === undefined ? [] : [latencyUs.p50]
    return [
      { name: 'ratio', of, value, unit: 'count', better: 'higher' },
      ...p50.map(
        (us): Figure => ({ name: 'p50 us', of, value: us, unit: 'count', better: 'lower' }),
      ),
    ]
  })
  return { verb: name, figures, settings: {} }
}

export function table(rows: readonly (readonly string[])[]): string[] {
  return aligned(rows)
    .split('\n')
    .map((line) => `  ${line}`)
}

function cells(row: Row): string[] {
  const { latencyUs } = row
  const times =
    latencyUs === undefined
      ? ['-', '-', '-']
      : [latencyUs.p50, latencyUs.p99, latencyUs.p999].map((us) => us.toFixed(us < 10 ? 2 : 0))
  return [
    row.name,
    Math.round(row.opsPerSecond).toLocaleString('en-US'),
    ...times,
    `${(row.spread * 100).toFixed(0)} %`,
    ratioText(row.ratio),
    ...(row.bytesPerOp === undefined ? [] : [row.bytesPerOp.toFixed(0)]),
    ...(row.cpuUsPerOp === undefined ? [] : [row.cpuUsPerOp.toPrecision(3)]),
  ]
}

function formatGoal(goal: GoalResult): string {
  const verdict = goal.isMet ? 'met' : 'NOT MET'
  const value = `${goal.value.toPrecision(3)}${unitOf(goal)}`
  return `  goal ${verdict}: ${labelOf(goal)} ${value} (${boundOf(goal)})`
}

const ratioText = (value: number): string => (Number.isFinite(value) ? value.toPrecision(3) : '-')

export function readResult(path: string): StoredResult {
  return JSON.parse(readFileSync(path, 'utf8')) as StoredResult
}

/** The tree's own; with `-dirty` where files differ from it or are not in it. */
export function commitOf(): string {
  const git = (...words: string[]) =>
    execFileSync('git', words, { cwd: packageRoot(), stdio: 'pipe' }).toString().trim()
  try {
    const commit = git('rev-parse', '--short', 'HEAD')
    return git('status', '--porcelain') === '' ? commit : `${commit}-dirty`
  } catch {
    return 'unknown'
  }
}
