// Runs a race: first the null run, one endpoint against itself, then all endpoints.
import { accept, type Outcome } from '../../base/errors.ts'
import type { Interval } from '../statistics.ts'
import { type Observed, type ObserveOptions, observeEndpoints, type Timing } from './connections.ts'
import { type PairScore, type RaceScore, scoreOf, tieMs } from './score.ts'
import { canRaceItself, type RaceTarget } from './units.ts'

export interface RaceOptions extends Omit<ObserveOptions, 'timing'> {
  readonly timing: Timing
  /** Counted time of the null run; 0 for none. */
  readonly nullMs: number
  readonly seed: number
}

export interface NullRun {
  readonly label: string
  readonly pair: PairScore
}

export interface PairVerdict extends PairScore {
  /** True when the interval clears what the null run shows of the same endpoint twice. */
  readonly isReal: boolean
}

export interface RaceOutcome {
  readonly score: RaceScore
  readonly observed: Observed
  /** Null when no endpoint can be read twice, or none was asked for. */
  readonly nullRun: NullRun | null
  /** Milliseconds that a difference must exceed. */
  readonly floorMs: number
  readonly verdicts: readonly PairVerdict[]
  readonly partial: string | null
}

export async function runRace(options: RaceOptions): Promise<Outcome<RaceOutcome>> {
  const twice = options.targets.find(canRaceItself)
  let nullRun: NullRun | null = null
  if (twice !== undefined && options.nullMs > 0) {
    const run = await runNull(twice, options)
    if (!run.ok) return run
    nullRun = run.value
  }
  const observed = await observeEndpoints(options)
  if (!observed.ok) return observed
  const { table, window, partial } = observed.value
  const score = scoreOf(table, window, options.seed)
  const floorMs = floorOf(nullRun?.pair.interval ?? null)
  const verdicts = score.pairs.map((pair) => ({ ...pair, isReal: clears(pair.interval, floorMs) }))
  return accept({ score, observed: observed.value, nullRun, floorMs, verdicts, partial })
}

async function runNull(target: RaceTarget, options: RaceOptions): Promise<Outcome<NullRun>> {
  const observed = await observeEndpoints({
    ...options,
    targets: [target, target],
    timing: { ...options.timing, countMs: options.nullMs },
    progress: (phase, seen) => options.progress(`null run, ${phase}`, seen),
  })
  if (!observed.ok) return observed
  const { table, window } = observed.value
  const [pair] = scoreOf(table, window, options.seed).pairs
  return accept({ label: target.label, pair: pair! })
}

/** The larger end of the null run's interval: differences within it are noise of the method. */
export function floorOf(interval: Interval | null): number {
  if (interval === null) return tieMs
  return Math.max(tieMs, Math.abs(interval.low), Math.abs(interval.high))
}

export function clears(interval: Interval | null, floorMs: number): boolean {
  return interval !== null && (interval.low > floorMs || interval.high < -floorMs)
}
