// What several whole runs of one commit say together, and the tables of docs/PERFORMANCE.md that show
// it. Pure. Guarantees: figures of two commits, of a changed tree or of two machines are never
// mixed, nor those of two releases of Node; only rows between `<!-- bench: name -->` and `<!-- /bench -->` change; a row that no three
// runs stand behind says so; writing the same results twice changes nothing.
import type { GoalResult, StoredResult } from './bench.ts'
import { median } from './rounds.ts'

/** Fewer show no spread. */
export const runsMin = 3
const unmeasured = 'not measured in three runs'
/** The region for benches that no other region names. */
const restRegion = 'all'

export interface Summary {
  /** Rows of a table, by the name of their bench. */
  readonly rows: ReadonlyMap<string, readonly string[]>
  /** A sentence for each figure that has too few runs. */
  readonly missing: readonly string[]
}

export const emptySummary: Summary = { rows: new Map(), missing: [] }

/** `results` holds one of each bench and run. A sentence where they do not belong together. */
export function summarise(results: readonly StoredResult[]): Summary | string {
  const [first] = results
  if (first === undefined) return 'there are no results of whole runs'
  const problem =
    mixed('commits', results, ({ commit }) => commit) ??
    mixed('Node versions', results, ({ node }) => node) ??
    mixed('machines', results, ({ cores, processor }) => `${cores} x ${processor}`)
  if (problem !== undefined) return problem
  if (!/^[0-9a-f]{7,40}$/.test(first.commit))
    return `results of ${first.commit} belong to no commit: commit, then measure`
  const byBench = grouped(results, ({ name }) => name)
  const rows = new Map<string, string[]>()
  const missing: string[] = []
  for (const [name, runs] of byBench) {
    const complete = runs.length >= runsMin
    if (complete) rows.set(name, figuresOf(runs, missing))
    else missing.push(`${name}: ${runs.length} of ${runsMin} runs`)
  }
  return { rows, missing }
}

function grouped<T>(all: readonly T[], keyOf: (one: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>()
  for (const one of all) {
    const group = groups.get(keyOf(one)) ?? []
    groups.set(keyOf(one), group)
    group.push(one)
  }
  return groups
}

function mixed(
  what: string,
  results: readonly StoredResult[],
  of: (result: StoredResult) => string,
): string | undefined {
  const found = [...new Set(results.map(of))]
  return found.length === 1 ? undefined : `results of several ${what}: ${found.join(', ')}`
}

/** One row for each goal; for a bench without goals, one for each contender's ratio. */
function figuresOf(runs: readonly StoredResult[], missing: string[]): string[] {
  const [{ name, commit, node, cores }] = runs as [StoredResult]
  const machine = `\`${commit}\`, Node ${node.slice(1)}, ${cores} cores`
  const byKey = grouped(
    runs.flatMap((run) => (run.goals.length > 0 ? run.goals : ratiosOf(run))),
    (goal) => `${labelOf(goal)} ${boundOf(goal)}`,
  )
  return [...byKey.values()].map((found) => {
    const goals = found.filter(({ value }) => Number.isFinite(value))
    const [goal] = found as [GoalResult]
    const label = labelOf(goal)
    if (goals.length < runsMin) {
      missing.push(`${name}, ${label}: ${goals.length} of ${runsMin} runs`)
      return rowOf([label, '-', boundOf(goal), `\`${name}\``, unmeasured])
    }
    const verdict = verdictOf(goals)
    const bound = verdict === '' ? '' : `${boundOf(goal)}: ${verdict}`
    return rowOf([label, spanOf(goals), bound, `\`${name}\``, `${goals.length} runs of ${machine}`])
  })
}

/** A plot has too many contenders for a table. */
function ratiosOf({ rows, axis }: StoredResult): GoalResult[] {
  const [baseline, ...others] = rows
  if (baseline === undefined || axis !== undefined) return []
  return others.map(({ name, ratio }) => ({
    contender: name,
    to: baseline.name,
    figure: 'opsPerSecond',
    value: ratio,
    isMet: true,
  }))
}

const figureNames = { opsPerSecond: 'ops/s', p50: 'p50', p99: 'p99', cpuUsPerOp: 'cpu/op' }

export function labelOf({ contender, to, minus, figure }: GoalResult): string {
  const compared = to === undefined ? contender : `${contender} to ${to}`
  return `${compared}${minus === undefined ? '' : ` minus ${minus}`}, ${figureNames[figure]}`
}

export function boundOf(goal: GoalResult): string {
  if (goal.atLeast !== undefined) return `at least ${short(goal.atLeast)}${unitOf(goal)}`
  return goal.atMost === undefined ? '' : `at most ${short(goal.atMost)}${unitOf(goal)}`
}

/** Met is only what every run met. */
function verdictOf(goals: readonly GoalResult[]): string {
  if (boundOf(goals[0]!) === '') return ''
  const missed = goals.filter(({ isMet }) => !isMet).length
  if (missed === 0) return 'met'
  return missed === goals.length ? 'missed' : `missed in ${missed} of ${goals.length} runs`
}

function spanOf(goals: readonly GoalResult[]): string {
  const values = goals.map(({ value }) => value)
  const [low, middle, high] = [Math.min(...values), median(values), Math.max(...values)].map(short)
  return `low ${low}, median ${middle}, high ${high}${unitOf(goals[0]!)}`
}

export function unitOf({ to, figure }: GoalResult): string {
  return to === undefined && figure !== 'opsPerSecond' ? ' us' : ''
}

function short(value: number): string {
  return value.toLocaleString('en-US', { maximumSignificantDigits: 3 })
}

function rowOf(cells: readonly string[]): string {
  return `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`
}

/** The region of a Node release that has one of its own; all others share the rest of the page. */
export function regionOfNode(document: string, node: string): string | null {
  const region = `node-${/\d+/.exec(node)}`
  return document.includes(`<!-- bench: ${region} -->`) ? region : null
}

/**
 * The document with the rows of the summary in its regions; every other row gets its mark. `only`
 * is a region of a Node release: it gets all of them, and no other changes.
 */
export function rewriteTables(document: string, { rows }: Summary, only?: string | null): string {
  const lines = document.split('\n')
  const written: string[] = []
  const shared = document.replace(/<!-- bench: node-[\s\S]*?<!-- \/bench -->/g, '').split('\n')
  const named = new Set(shared.filter(isRow).flatMap((line) => benchOf(line) ?? []))
  for (let index = 0; index < lines.length; index += 1) {
    written.push(lines[index]!)
    const region = /^<!-- bench: (\S+) -->$/.exec(lines[index]!)?.[1]
    if (region === undefined) continue
    const end = lines.indexOf('<!-- /bench -->', index)
    if (end < 0) throw new Error(`the region ${region} has no end`)
    const before = lines.slice(index + 1, end)
    index = end - 1
    if (region === only) written.push(...before.slice(0, 2), ...[...rows.values()].flat())
    else if (only || region.startsWith('node-')) written.push(...before)
    else written.push(...regionOf(before, rows))
    if (region === restRegion && !only)
      for (const [name, own] of rows) if (!named.has(name)) written.push(...own)
  }
  return written.join('\n')
}

/** Rows of a measured bench come where its first one was. */
function regionOf(lines: readonly string[], rows: Summary['rows']): string[] {
  const isWritten = new Set<string>()
  // Head and rule of the table come first.
  return lines.flatMap((line, index) => {
    if (index < 2 || !isRow(line)) return [line]
    const name = benchOf(line)
    const own = name === undefined ? undefined : rows.get(name)
    if (name === undefined || own === undefined || own.length === 0) return [marked(line)]
    if (isWritten.has(name)) return []
    isWritten.add(name)
    return own
  })
}

function isRow(line: string): boolean {
  return line.startsWith('| ') && cellsOf(line).length === 5
}

function cellsOf(line: string): string[] {
  return line.slice(1, -1).split(/(?<!\\)\|/)
}

function benchOf(line: string): string | undefined {
  return /^ `([\w-]+)`/.exec(cellsOf(line)[3]!)?.[1]
}

function marked(line: string): string {
  const cells = cellsOf(line)
  if (/^ \d+ runs of `/.test(cells[4]!)) return line
  return `|${[...cells.slice(0, 4), ` ${unmeasured} `].join('|')}|`
}
