// What a world of the simulation is, and how one seed of it is run, checked twice and shrunk.
// A world runs decisions of the server in one process, on virtual time (virtual-time.ts), with
// faults that its seed decides. It depends on no real time, socket, disk or chance: the same seed
// and limits give the same trace.
import { createHash, type Hash } from 'node:crypto'
import { inspect, isDeepStrictEqual } from 'node:util'

export interface Limits {
  /** A script takes no more steps with faults than that: a failure shrinks to the fewest. */
  readonly steps: number
  /** Takes a line of what happened; runs of the same seed and steps have the same lines. */
  readonly trace?: (line: string) => void
}

export interface World {
  /** One word. */
  readonly name: string
  /** One line: which decisions run, under which faults. */
  readonly what: string
  /** Counts that are above 0 over many seeds: a simulation that meets no fault shows nothing. */
  readonly mustMeet: readonly string[]
  /** Of these, what few seeds meet. */
  readonly rare?: readonly string[]
  /** Runs a seed and checks after every step; throws when a property is broken. */
  run(seed: number, limits: Limits): Promise<Counts>
}

/** How often what happened. */
export type Counts = Readonly<Record<string, number>>

/** What a script takes without a limit: worlds have their own ends below it. */
export const stepsMax = 1_000

export interface Outcome {
  readonly counts: Counts
  /** Of the trace. */
  readonly digest: string
}

export async function runOnce(world: World, seed: number, steps = stepsMax): Promise<Outcome> {
  const hash: Hash = createHash('sha256')
  let lines = 0
  const trace = (line: string) => {
    lines++
    hash.update(`${line}\n`)
  }
  const unhandled: unknown[] = []
  const note = (reason: unknown) => void unhandled.push(reason)
  process.on('unhandledRejection', note)
  let counts: Counts
  try {
    counts = await world.run(seed, { steps, trace })
    await new Promise((resolve) => setImmediate(resolve))
  } finally {
    process.off('unhandledRejection', note)
  }
  if (unhandled.length > 0) throw unhandled[0]
  if (lines === 0 && steps === stepsMax) throw new Error(`world ${world.name} traces nothing`)
  return { counts, digest: hash.update(JSON.stringify(counts)).digest('hex') }
}

export interface Failure {
  readonly seed: number
  readonly steps: number
  readonly error: Error
}

/** Null when it holds. */
export async function failureOf(world: World, seed: number, steps: number): Promise<Error | null> {
  try {
    await runOnce(world, seed, steps)
    return null
  } catch (error) {
    return error instanceof Error ? error : new Error(String(error))
  }
}

/**
 * The fewest steps with which the seed fails as it does with `steps`, found by bisection: fewer
 * steps change what follows, so the fewest of all may be fewer still.
 */
export async function shrink(world: World, failure: Failure): Promise<Failure> {
  let least = failure
  let passing = 0
  const first = await failureOf(world, failure.seed, 0)
  if (first !== null) return { ...failure, steps: 0, error: first }
  // Scripts end on their own: the first halvings change nothing, and cost one run each.
  while (least.steps - passing > 1) {
    const steps = passing + Math.floor((least.steps - passing) / 2)
    const error = await failureOf(world, failure.seed, steps)
    if (error === null) passing = steps
    else least = { ...failure, steps, error }
  }
  return least
}

/** The command that runs it again. */
export function commandOf(world: World, { seed, steps }: Omit<Failure, 'error'>): string {
  const limit = steps < stepsMax ? ` --steps ${steps}` : ''
  return `npm run simulate -- ${world.name} --seed ${seed}${limit}`
}

/** A property of a world. */
export function check(claim: boolean, what: string): asserts claim {
  if (!claim) throw new Error(what)
}

/** Fails with the first difference. */
export function same(actual: unknown, expected: unknown, what: string): void {
  if (isDeepStrictEqual(actual, expected)) return
  throw new Error(`${what}: ${differenceOf(actual, expected)}`)
}

const shownMax = 300

function differenceOf(actual: unknown, expected: unknown, path = ''): string {
  if (Array.isArray(actual) && Array.isArray(expected)) {
    const at = Array.from({ length: Math.max(actual.length, expected.length) }).findIndex(
      (_, index) => !isDeepStrictEqual(actual[index], expected[index]),
    )
    if (at >= 0) return differenceOf(actual[at], expected[at], `${path}[${at}]`)
  }
  const shown = (value: unknown) => inspect(value, { breakLength: 200 }).slice(0, shownMax)
  return `${path === '' ? '' : `at ${path} `}${shown(actual)} instead of ${shown(expected)}`
}
