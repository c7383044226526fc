// Sets two result files side by side and finds figures that became worse.
import { accept, type Outcome, refuse } from '../base/errors.ts'
import { type Figure, figureText, type Result } from './result.ts'

export interface Change {
  readonly figure: string
  readonly of: string
  readonly before: string
  readonly after: string
  /** 0.1 is ten percent worse, whatever the direction of the figure; null where unknown. */
  readonly worseBy: number | null
  /** The 95 % intervals of the two overlap. */
  readonly isNoise: boolean
}

export interface Comparison {
  readonly changes: readonly Change[]
  /** Settings that differ: the figures then answer different questions. */
  readonly settings: readonly string[]
}

/** What is compared; results of other programs have names of their own. */
export interface Compared extends Pick<Result, 'figures' | 'settings'> {
  readonly verb: string
}

export function compareResults(before: Compared, after: Compared): Outcome<Comparison> {
  if (before.verb !== after.verb)
    return refuse(
      'invalid',
      'bad-result',
      `a result of bench ${before.verb} cannot be compared with one of bench ${after.verb}`,
    )
  const changes = before.figures
    .filter(({ better }) => better !== undefined)
    .map((old) => changeOf(old, sameFigure(after, old)))
  const names = new Set([...Object.keys(before.settings), ...Object.keys(after.settings)])
  const settings = [...names]
    .filter((name) => before.settings[name] !== after.settings[name])
    .map((name) => `${name}: ${before.settings[name]} and ${after.settings[name]}`)
  return accept({ changes, settings })
}

/** The changes that are worse by more than `share` and more than the noise of the runs. */
export function worseThan({ changes }: Comparison, share: number): readonly Change[] {
  return changes.filter(({ worseBy, isNoise }) => !isNoise && (worseBy ?? 0) > share)
}

/** Cells of a table: figure, before, after, change. */
export function changeRow(change: Change): string[] {
  const { before, after, worseBy, isNoise } = change
  const word = (worseBy ?? 0) > 0 ? 'worse' : 'better'
  const text = worseBy === 0 || worseBy === null ? 'same' : `${changePercent(change)} ${word}`
  return [changeName(change), before, after, isNoise && worseBy !== 0 ? `${text} (noise)` : text]
}

export function changeName({ figure, of }: Change): string {
  return of === '' ? figure : `${of} ${figure}`
}

export function changePercent({ worseBy }: Change): string {
  const share = Math.abs(worseBy ?? 0)
  return Number.isFinite(share) ? `${(share * 100).toFixed(1)} %` : 'any measure'
}

function sameFigure({ figures }: Compared, { name, of }: Figure): Figure | null {
  return figures.find((figure) => figure.name === name && figure.of === of) ?? null
}

function changeOf(old: Figure, fresh: Figure | null): Change {
  const { name, of } = old
  const before = figureText(old)
  const after = fresh === null ? 'missing' : figureText(fresh)
  return {
    figure: name,
    of,
    before,
    after,
    worseBy: worse(old, fresh),
    isNoise: overlap(old, fresh),
  }
}

/** A figure that was measured before and is not any more is infinitely worse. */
function worse({ value: before, better }: Figure, fresh: Figure | null): number | null {
  if (before === null) return null
  const after = fresh?.value ?? null
  if (after === null) return Number.POSITIVE_INFINITY
  if (before === after) return 0
  if (before === 0) return after > 0 === (better === 'lower') ? Number.POSITIVE_INFINITY : -1
  const change = after / before - 1
  return better === 'lower' ? change : -change
}

function overlap(a: Figure, b: Figure | null): boolean {
  if (a.low === undefined || a.high === undefined) return false
  if (b?.low === undefined || b.high === undefined) return false
  return a.low <= b.high && b.low <= a.high
}
