// Results of a bench run: a table on stdout, a JSON file, and two such files side by side.
// Thread: main of the bench process.
import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { availableParallelism, cpus } from 'node:os'
import { join } from 'node:path'
import { packageRoot } from '../../src/base/threads/entry.ts'
import type { BenchResult, GoalResult, Row } from './bench.ts'
import { bendNotes, growthCells, linesOf } from './growth-lines.ts'
import { plotSvg } from './plot.ts'

export interface StoredResult extends BenchResult {
  readonly commit: string
  readonly node: string
  readonly cores: number
  readonly processor: string
  readonly config: Readonly<Record<string, unknown>>
}

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
  const stored: StoredResult = {
    ...result,
    commit: commitOf(),
    node: process.version,
    cores: availableParallelism(),
    processor: cpus()[0]?.model ?? 'unknown',
    config,
  }
  const path = join(folder, `${result.name}.json`)
  writeFileSync(path, `${JSON.stringify(stored, null, 2)}\n`)
  if (result.axis !== undefined) writeFileSync(path.replace(/json$/, 'svg'), plotSvg(result))
  return path
}

/** Two result files side by side. Only ratios are compared: machines differ, ratios should not. */
export function formatComparison(beforePath: string, afterPath: string): string {
  const before = readResult(beforePath)
  const after = readResult(afterPath)
  const rows = after.rows.map((row) => {
    const old = before.rows.find(({ name }) => name === row.name)
    if (old === undefined) return [row.name, '-', ratio(row.ratio), '-', '-', micro(row)]
    const change = `${((row.ratio / old.ratio - 1) * 100).toFixed(1)} %`
    return [row.name, ratio(old.ratio), ratio(row.ratio), change, micro(old), micro(row)]
  })
  const gone = before.rows.filter((old) => !after.rows.some(({ name }) => name === old.name))
  return [
    `${before.name} at ${before.commit} and ${after.name} at ${after.commit}`,
    ...table([
      ['', 'ratio before', 'ratio after', 'change', 'p50 before', 'p50 after'],
      ...rows,
      ...gone.map((old) => [old.name, ratio(old.ratio), '-', '-', micro(old), '-']),
    ]),
  ].join('\n')
}

export function table(rows: readonly (readonly string[])[]): string[] {
  const widths = rows[0]!.map((_, column) =>
    Math.max(...rows.map((row) => row[column]?.length ?? 0)),
  )
  return rows.map((row) => {
    const padded = row.map((cell, column) =>
      column === 0 ? cell.padEnd(widths[0]!) : cell.padStart(widths[column]!),
    )
    return `  ${padded.join('  ')}`.trimEnd()
  })
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
    ratio(row.ratio),
    ...(row.bytesPerOp === undefined ? [] : [row.bytesPerOp.toFixed(0)]),
    ...(row.cpuUsPerOp === undefined ? [] : [row.cpuUsPerOp.toPrecision(3)]),
  ]
}

function formatGoal(goal: GoalResult): string {
  const bound = goal.atLeast === undefined ? `at most ${goal.atMost}` : `at least ${goal.atLeast}`
  const unit = goal.to === undefined && goal.figure !== 'opsPerSecond' ? ' us' : ''
  const subject = goal.to === undefined ? goal.contender : `${goal.contender} to ${goal.to}`
  const verdict = goal.isMet ? 'met' : 'NOT MET'
  const figure = goal.figure === 'opsPerSecond' ? 'ops/s' : goal.figure
  const value = goal.value.toPrecision(3)
  return `  goal ${verdict}: ${subject}, ${figure} ${value}${unit} (${bound}${unit})`
}

const ratio = (value: number): string => (Number.isFinite(value) ? value.toPrecision(3) : '-')
const micro = (row: Row): string => row.latencyUs?.p50.toFixed(2) ?? '-'

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
