// Whether the tree is slower than the newest release, from rounds that alternated between both. Pure.
import { table } from './report.ts'
import { median } from './rounds.ts'

/** Time for each operation, tree to release; more than this has failed. */
export const slowerMax = 1.25

export interface Release {
  readonly version: string
  readonly commit: string
}

/** Operations per second of processor time in each round; three rounds or more. */
export interface Sides {
  readonly name: string
  readonly release: readonly number[]
  readonly tree: readonly number[]
}

/** What CHANGELOG.md names first; null where its heading names no commit. */
export function newestRelease(changelog: string): Release | null {
  const heading = /^## (\d+\.\d+\.\d+).*$/m.exec(changelog)
  const commit = heading && /\(([0-9a-f]{7,40})\)$/.exec(heading[0])
  return commit ? { version: heading[1]!, commit: commit[1]! } : null
}

/** Slower by the medians, and no round of the tree as fast as the slowest one of the release. */
export function isSlower({ release, tree }: Sides): boolean {
  const slower = median(release) / median(tree)
  return slower > slowerMax && spreadOf(tree).high < spreadOf(release).low
}

/** Without the lowest and the highest round: one disturbed round must not hide a slower tree. */
function spreadOf(values: readonly number[]): { readonly low: number; readonly high: number } {
  const kept = [...values].sort((a, b) => a - b).slice(1, -1)
  return { low: kept[0]!, high: kept.at(-1)! }
}

export function formatSides(all: readonly Sides[], { version, commit }: Release): string {
  const span = (values: readonly number[]) => {
    const { low, high } = spreadOf(values)
    return [low, median(values), high].map(count).join(' / ')
  }
  const rows = all.map((sides) => [
    sides.name,
    span(sides.release),
    span(sides.tree),
    `x ${(median(sides.release) / median(sides.tree)).toFixed(2)}`,
    isSlower(sides) ? 'SLOWER' : 'ok',
  ])
  const head = ['', `${version} (${commit}), low / median / high`, 'tree', 'time', '']
  return [
    'operations per second of processor time, rounds of both in turn, lowest and highest left out',
    ...table([head, ...rows]),
    `  fails above x ${slowerMax} where the rounds of both do not overlap`,
  ].join('\n')
}

function count(value: number): string {
  return Math.round(value).toLocaleString('en-US')
}
