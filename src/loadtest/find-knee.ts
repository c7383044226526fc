// Searches the highest rate that meets conditions: doubles, then bisects.
// A rate fails only when it fails twice: one bad second of the machine does not end the search.
import { accept, type Outcome } from '../base/errors.ts'

/** What one run at a rate showed. */
export interface Step<Run> {
  readonly rate: number
  readonly isMet: boolean
  /** A sentence when the run says nothing about the endpoint: unfit, or stopped early. */
  readonly problem: string | null
  readonly run: Run
}

export interface Knee<Run> {
  readonly steps: readonly Step<Run>[]
  /** The run at the highest rate that met the conditions; null when none did. */
  readonly best: Step<Run> | null
  /** A sentence when the knee was not reached; null when it was found. */
  readonly problem: string | null
}

/** The search ends when the knee is known to this part of it. */
const precision = 0.04
const rateMin = 1

export async function findKnee<Run>(
  startRate: number,
  runAt: (rate: number) => Promise<Outcome<Step<Run>>>,
): Promise<Outcome<Knee<Run>>> {
  const steps: Step<Run>[] = []
  let best: Step<Run> | null = null
  let failedRate = Number.POSITIVE_INFINITY
  let rate = startRate
  while (failedRate - (best?.rate ?? 0) > precision * failedRate || !Number.isFinite(failedRate)) {
    const step = await twice(rate, runAt, steps)
    if (!step.ok) return step
    const { isMet, problem } = step.value
    if (isMet) best = step.value
    else if (problem !== null) return accept({ steps, best, problem })
    else failedRate = rate
    if (failedRate <= rateMin)
      return accept({ steps, best, problem: `no rate down to ${rateMin}/s meets the conditions` })
    rate = nextRate(best?.rate ?? null, failedRate)
  }
  return accept({ steps, best, problem: null })
}

async function twice<Run>(
  rate: number,
  runAt: (rate: number) => Promise<Outcome<Step<Run>>>,
  steps: Step<Run>[],
): Promise<Outcome<Step<Run>>> {
  const first = await runAt(rate)
  if (!first.ok) return first
  steps.push(first.value)
  if (first.value.isMet) return first
  const second = await runAt(rate)
  if (second.ok) steps.push(second.value)
  return second
}

function nextRate(met: number | null, failed: number): number {
  if (met === null) return Math.max(rateMin, failed / 2)
  return Number.isFinite(failed) ? (met + failed) / 2 : met * 2
}
