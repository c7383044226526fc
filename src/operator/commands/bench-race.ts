// `sluice bench race`: which of several endpoints shows a transaction, slot or account write first.
// Thread: main; each endpoint has a thread of its own.
import { accept, type Outcome } from '../../base/errors.ts'
import { decodeKey } from '../../chain/solana/base58.ts'
import { runRace } from '../../loadtest/race/race.ts'
import { racePlot, raceResult, raceSentences } from '../../loadtest/race/race-result.ts'
import { type RaceTarget, raceKinds, type Unit, unitOf, units } from '../../loadtest/race/units.ts'
import { resultOf } from '../../loadtest/result.ts'
import { parseTarget } from '../../loadtest/target.ts'
import { LiveLine, outputFlags, reportResult, timesOf, watchStopSignals } from './bench-output.ts'
import {
  type Call,
  type FlagSpec,
  flagOf,
  flagTable,
  listOf,
  misuse,
  numberOf,
  type Report,
  type Verb,
} from './verb.ts'

const letters = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'] as const
const commitments = ['processed', 'confirmed', 'finalized'] as const
const pollMs = 50
const seedMax = 0xffff_ffff
const defaultTimes = { for: '30s', null: '10s', 'warm-up': '5s', 'cool-down': '5s' } as const

export const benchRaceVerb: Verb = {
  words: ['bench', 'race'],
  summary: 'Compare endpoints: which one shows a transaction, slot or account write first.',
  examples: ['bench race --a geyser=http://127.0.0.1:10010 --b websocket=ws://127.0.0.1:8900'],
  needsNoConfig: true,
  flags: [
    ...letters.map(endpointFlag),
    ...flagTable(`
    --unit <unit ${units.join('|')}>  What is compared [what all can show].
    --account <address> ...  Only transactions that name it, or the account whose writes count.
    --commitment <level ${commitments.join('|')}>  Commitment [processed].
    --for <time>        Counted time [30s].
    --null <time>       Counted time of the null run, 0s for none [10s].
    --warm-up <time>    Time before the count [5s].
    --cool-down <time>  Time after it for late endpoints [5s].
    --poll <ms 1..60000>  Time between two getSlot [${pollMs}].
    --seed <n 0..${seedMax}>  Seed of the bootstrap [1].`),
    ...outputFlags,
  ],
  async run(call) {
    const asked = askedOf(call)
    return asked.ok ? race(call, asked.value) : asked
  },
}

interface Asked {
  readonly targets: readonly RaceTarget[]
  readonly unit: Unit
  readonly accounts: readonly string[]
  readonly times: Readonly<Partial<Record<keyof typeof defaultTimes, number>>>
}

function endpointFlag(letter: (typeof letters)[number]): FlagSpec {
  const doc =
    letter === 'a'
      ? `Endpoint: ${raceKinds.join(', ')}; options token=, token-file=, name=.`
      : `${letter < 'c' ? 'Second' : 'Another'} endpoint.`
  return { name: letter, value: 'kind=url[,token=…]', doc }
}

function askedOf(call: Call): Outcome<Asked> {
  const targets: RaceTarget[] = []
  for (const letter of letters) {
    const text = flagOf(call, letter)
    if (text === undefined) continue
    const target = parseTarget(letter, text, raceKinds)
    if (!target.ok) return target
    targets.push({ ...target.value, label: `${letter} ${target.value.label}` })
  }
  if (targets.length < 2) return misuse('a race needs two endpoints or more: --a and --b')
  const unit = unitOf(targets, flagOf(call, 'unit'))
  if (!unit.ok) return unit
  const accounts = listOf(call, 'account') ?? []
  const wrong = accounts.find((account) => decodeKey(account) === null)
  if (wrong !== undefined) return misuse(`--account ${wrong} is not the address of an account`)
  if (unit.value === 'account' && accounts.length === 0)
    return misuse('--unit account needs --account, the account whose writes count')
  const times = timesOf(call, defaultTimes)
  if (!times.ok) return times
  if (times.value.for === 0) return misuse('--for must be longer than 0s')
  return accept({ targets, unit: unit.value, accounts, times: times.value })
}

async function race(
  call: Call,
  { targets, unit, accounts, times }: Asked,
): Promise<Outcome<Report>> {
  const { for: countMs = 0, null: nullMs = 0 } = times
  const { 'warm-up': warmUpMs = 0, 'cool-down': coolDownMs = 0 } = times
  const commitment = commitments.find((one) => one === flagOf(call, 'commitment')) ?? 'processed'
  const seed = numberOf(call, 'seed', 1)
  const startedAt = new Date().toISOString()
  const line = new LiveLine()
  const stop = watchStopSignals()
  const outcome = await runRace({
    targets,
    subject: { unit, accounts, commitment, pollMs: numberOf(call, 'poll', pollMs) },
    timing: { warmUpMs, countMs, coolDownMs },
    nullMs,
    seed,
    signal: stop.signal,
    progress: (phase, seen) => line.show(`${phase}: ${seen.join(', ')} ${unit}s seen`),
  })
  line.clear()
  stop.release()
  if (!outcome.ok) return outcome
  const settings = {
    unit,
    commitment,
    seed,
    accounts: accounts.join(', '),
    ...Object.fromEntries(targets.map(({ label }, index) => [`endpoint ${index + 1}`, label])),
    ...Object.fromEntries(Object.entries(times).map(([name, ms]) => [`${name} ms`, ms])),
  }
  const result = resultOf(raceResult(outcome.value, settings, startedAt))
  const sentences = raceSentences(outcome.value)
  return reportResult(call, result, {
    title: `Race of ${targets.length} endpoints`,
    plots: [racePlot(outcome.value)],
    findings: [...sentences.slice(1), ...sentences.slice(0, 1)],
    shown: result.figures.filter(({ name }) => !name.endsWith('difference')),
    more: sentences,
  })
}
