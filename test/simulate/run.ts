// `npm run simulate -- [world…]`: runs seeds of all worlds, or of some.
//   --seed n       the first seed; without --seeds and --for it is the only one of each world
//   --seeds k      so many seeds, spread over the worlds
//   --for 10m      seeds until the time is over (such as 90s or 1h), the worlds in turn
//   --defect name  with a defect of defects.ts: the seeds shall find it
//   --steps n      scripts take no more steps with faults, as the message of a failure says
// SIGINT ends it early, with its report.
// A seed that fails prints the command that runs it again, and that of its fewest steps; the exit
// code is 1. Every so many seeds one is run twice: the same seed gives the same trace.
import { register } from 'node:module'
import { countFlag, durationFlag, exitWith, readFlags } from '../testkit/flags.ts'
import { defects } from './defects.ts'
import {
  type Counts,
  commandOf,
  type Failure,
  runOnce,
  shrink,
  stepsMax,
  type World,
} from './world.ts'

/** One seed in so many is run twice. */
const twiceEvery = 25
/** After so many seeds a world has met what it must meet. */
const meetSeeds = 20
const meetRareSeeds = 100

const { values, positionals } = readFlags({
  seed: { type: 'string' },
  seeds: { type: 'string' },
  for: { type: 'string' },
  steps: { type: 'string', default: String(stepsMax) },
  defect: { type: 'string' },
})
if (values.defect !== undefined) putIn(values.defect)
// After the defect, which is put into modules as they are loaded.
const { worlds } = await import('./worlds.ts')
const known = worlds.map(({ name }) => name)
const unknown = positionals.filter((name) => !known.includes(name))
if (unknown.length > 0)
  exitWith(`unknown world ${unknown.join(', ')}; there are ${known.join(', ')}`)
const withDefect = values.defect === undefined ? '' : ` --defect ${values.defect}`
const forMs = values.for === undefined ? null : durationFlag('for', values.for)
const isOne = values.seed !== undefined && values.seeds === undefined && forMs === null
const started = forMs === null ? 1 : Date.now() % 1_000_000_000
const first = countFlag('seed', values.seed ?? String(started))
const steps = countFlag('steps', values.steps)
const seeds = countFlag('seeds', values.seeds ?? '200', 1)

/** The seeds of a world, one after the other. */
class Campaign {
  readonly world: World
  readonly #totals = new Map<string, number>()
  #seeds = 0
  #ms = 0
  failure: Failure | null = null

  constructor(world: World) {
    this.world = world
  }

  async next(): Promise<void> {
    const seed = first + this.#seeds
    const beganMs = performance.now()
    try {
      const { counts, digest } = await runOnce(this.world, seed, steps)
      this.#add(counts)
      if (this.#seeds % twiceEvery === 0) {
        const again = await runOnce(this.world, seed, steps)
        if (again.digest !== digest) throw new Error('the same seed gave another trace')
      }
    } catch (error) {
      this.failure = { seed, steps, error: error as Error }
    }
    this.#seeds++
    this.#ms += performance.now() - beganMs
  }

  /** Whether all seeds held, and met what they must. */
  async report(): Promise<boolean> {
    const { name, mustMeet, rare = [] } = this.world
    const counts = [...this.#totals].map(([what, count]) => `${what} ${count}`).join(', ')
    const seconds = (this.#ms / 1_000).toFixed(1)
    console.log(`${name}: ${this.#seeds} seeds from ${first}, ${seconds} s: ${counts}`)
    if (this.failure !== null) {
      await this.#reportFailure(this.failure)
      return false
    }
    const isDue = (what: string) => this.#seeds >= (rare.includes(what) ? meetRareSeeds : meetSeeds)
    const unmet = mustMeet.filter((what) => isDue(what) && !this.#totals.get(what))
    if (unmet.length === 0) return true
    console.error(`${name}: FAILED: no seed met ${unmet.join(', ')}`)
    return false
  }

  async #reportFailure(failure: Failure): Promise<void> {
    const { world } = this
    console.error(`${world.name}: FAILED with seed ${failure.seed}: ${failure.error.stack}`)
    console.error(`again: ${commandOf(world, failure)}${withDefect}`)
    const least = await shrink(world, failure)
    if (least.steps === failure.steps) return
    console.error(`shrunk: ${commandOf(world, least)}${withDefect}\n  ${least.error.message}`)
  }

  #add(counts: Counts): void {
    for (const [what, count] of Object.entries(counts))
      this.#totals.set(what, (this.#totals.get(what) ?? 0) + count)
  }
}

const chosen =
  positionals.length === 0 ? worlds : worlds.filter((one) => positionals.includes(one.name))
const campaigns = chosen.map((world) => new Campaign(world))
const endMs = performance.now() + (forMs ?? Number.POSITIVE_INFINITY)
const rounds = isOne
  ? 1
  : forMs === null
    ? Math.ceil(seeds / chosen.length)
    : Number.POSITIVE_INFINITY
let isEnded = false
process.once('SIGINT', () => {
  isEnded = true
})
for (let round = 0; round < rounds && performance.now() < endMs && !isEnded; round++) {
  const running = campaigns.filter(({ failure }) => failure === null)
  if (running.length === 0) break
  for (const campaign of running) await campaign.next()
}
let failed = 0
for (const campaign of campaigns) if (!(await campaign.report())) failed++
console.log(`${campaigns.length - failed} of ${campaigns.length} worlds without a failure`)
process.exit(failed === 0 ? 0 : 1)

function putIn(name: string): void {
  const defect = defects.find((one) => one.name === name)
  if (defect === undefined) exitWith(`unknown defect ${name}`)
  register(new URL('./with-defect.js', import.meta.url), { data: defect.cuts })
}
