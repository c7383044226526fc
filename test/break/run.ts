// `npm run break -- --for 10m --seed 7`: breaks the whole service, one or two faults at once by the
// seed, with load on every endpoint, and checks afterwards that nothing acknowledged was lost, that
// every client has everything once, that counters add up and that every endpoint came back.
//   --for 30s|10m|1h   how long faults go on
//   --seed n           which faults, where and how long
//   --faults a,b       only those whose name contains one of these texts
//   --alone            one gateway without PostgreSQL, also where that is installed
//   --clients n        PubSub clients; as many consumers, from_slot and event clients
//   --patience x       multiplies the bounds of time, for a machine that is busy with other work
// The exit code is 1 where a property does not hold.
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { removeFolders } from '../cluster/gateway-stage.ts'
import { countFlag, durationFlag, exitWith, readFlags, refuseArguments } from '../testkit/flags.ts'
import { randomOf } from '../testkit/synthetic-solana.ts'
import { until } from '../testkit/until.ts'
import { checkAll, type Property } from './check.ts'
import { type Fault, faults } from './faults.ts'
import { Load } from './load.ts'
import { Readers } from './readers.ts'
import {
  memoryOf,
  ofFiles,
  processorTicks,
  type Recovery,
  recoveryOf,
  stealSince,
  workMs,
} from './recovery.ts'
import { pause, Stage } from './stage.ts'

/** Every endpoint is back within this after the end of a fault. */
const backMs = 2_000
/** The same after a start of the gateway, with all of its processes. */
const startedMs = 8_000
/** A start waits this long for PostgreSQL, then goes on without it. */
const awayMs = 5_000
/** Leases of destinations: taken over after 2 to 2.5 s, then a shred must come. */
const shredsBackMs = 5_000
const faultMs = { least: 500, most: 5_000 }
const calmMs = { least: 500, most: 2_000 }
/** Of faults that come with another one. */
const pairShare = 0.25
const hangMs = 90_000
/** A shorter run says nothing about memory. */
const memoryRunMs = 1_800_000
const warmUpShare = 0.15
const memoryGrowth = 1.1
/** The processes of a gateway are told within 100 ms; the rest is for a busy machine. */
const collectMs = 1_000
/** Below this a process may vary by more than a tenth with one collection of garbage. */
const memorySlackMb = 16

const { values, positionals } = readFlags({
  for: { type: 'string', default: '10m' },
  seed: { type: 'string', default: String(Date.now() % 1_000_000) },
  faults: { type: 'string', default: '' },
  clients: { type: 'string', default: '8' },
  patience: { type: 'string', default: '1' },
  alone: { type: 'boolean', default: false },
})
refuseArguments(positionals)
const seed = countFlag('seed', values.seed)
const forMs = durationFlag('for', values.for)
const patience = countFlag('patience', values.patience, 1)
const clients = countFlag('clients', values.clients, 1)
const named = faults.filter(({ name }) =>
  values.faults.split(',').some((text) => name.includes(text)),
)
if (named.length === 0)
  exitWith(
    `no fault has ${values.faults} in its name: ${faults.map(({ name }) => name).join(', ')}`,
  )

interface Outcome extends Recovery {
  readonly fault: string
  readonly isLate: boolean
  readonly steal: number
  readonly workMs: number
}

const outcomes: Outcome[] = []
const ticksAtStart = processorTicks()
const beganMs = performance.now()
const again = `npm run break -- --for ${values.for} --seed ${seed}${flagsLeft()}`
console.log(`seed ${seed}: ${again}`)
// Set before any process starts: a failure half-way must not leave one.
let stage: Stage | null = null
let code = 1
for (const signal of ['SIGINT', 'SIGTERM'])
  process.once(signal, () => void stage?.dispose().finally(() => process.exit(1)))
try {
  stage = await Stage.start(seed, { isAlone: values.alone, isFilled: forMs >= memoryRunMs })
  code = (await run(stage)) ? 0 : 1
} catch (error) {
  // The message of a failed start has the whole log of the server.
  console.error(String(error instanceof Error ? error.stack : error).slice(-3_000))
} finally {
  await stage?.dispose()
  removeFolders()
}
console.log(`${code === 0 ? 'passed' : 'FAILED'}; again: ${again}`)
process.exit(code)

async function run(stage: Stage): Promise<boolean> {
  const clientsRandom = randomOf(seed + 1)
  const readers = await Readers.open(stage, clientsRandom, clients)
  const load = await Load.open(stage, readers, clientsRandom)
  const usable = usableFaults(stage)
  await calm(stage, readers)
  log(`all endpoints work; ${usable.length} kinds of faults`)
  const warmUpMs = forMs >= memoryRunMs ? forMs * warmUpShare : 0
  await pause(warmUpMs)
  const before = await memorySettled(stage)
  await breakAll(stage, { readers, load, usable })
  await load.stop()
  const after = await memorySettled(stage)
  const checked = await checkAll({ stage, readers, load, hangMs: hangMs * Math.min(patience, 2) })
  readers.close()
  const properties = [...checked, back(), memory(before, after)]
  printFaults()
  for (const property of properties) print(property)
  const holds = properties.every(({ holds }) => holds !== false)
  if (!holds) await keepEvidence(stage)
  return holds
}

/** What the gateways know of a failure: their logs since their last start, and their meters. */
async function keepEvidence({ gateways }: Stage): Promise<void> {
  const folder = join('.break', String(seed))
  mkdirSync(folder, { recursive: true })
  for (const { number, server } of gateways.filter(({ isRunning }) => isRunning)) {
    writeFileSync(join(folder, `gateway-${number}.log`), server.stderr())
    const answer = await fetch(`${server.url('metrics')}/metrics`)
    writeFileSync(join(folder, `gateway-${number}.metrics`), await answer.text())
  }
  console.log(`logs and meters of the gateways: ${folder}`)
}

interface Work {
  readonly readers: Readers
  readonly load: Load
  readonly usable: readonly Fault[]
}

async function breakAll(stage: Stage, { readers, load, usable }: Work): Promise<void> {
  const random = randomOf(seed)
  const between = ({ least, most }: typeof faultMs) => least + random() * (most - least)
  const endMs = performance.now() + forMs
  let bag: Fault[] = []
  while (performance.now() < endMs) {
    if (bag.length === 0) bag = [...usable]
    const fault = takeAny(bag, random, () => true)!
    const second =
      random() < pairShare ? takeAny(bag, random, ({ hits }) => hits !== fault.hits) : null
    const gateway = stage.gateways[Math.floor(random() * stage.gateways.length)]!
    const both = second === null ? [fault] : [fault, second]
    const reverts: { readonly isStart: boolean; readonly revert: () => unknown }[] = []
    for (const { apply, isStart = false } of both)
      reverts.unshift({ isStart, revert: await apply({ stage, load, gateway, random }) })
    await pause(between(faultMs))
    // The start of a gateway counts; that of another server is part of the fault.
    let sinceMs = performance.now()
    const ticks = processorTicks()
    for (const { isStart, revert } of reverts) {
      const beganMs = performance.now()
      await revert()
      if (!isStart) sinceMs += performance.now() - beganMs
    }
    note(both, gateway, await recoveryOf(stage, sinceMs), stealSince(ticks))
    await stage.repair
    await readers.audit.compare(readers.audited)
    // What follows would be about the first failure, whatever is broken next.
    if (readers.audit.problems.length > 0 || stage.gateways.some(({ hasDied }) => hasDied)) return
    await pause(between(calmMs))
  }
}

function takeAny(
  bag: Fault[],
  random: () => number,
  fits: (fault: Fault) => boolean,
): Fault | null {
  const some = bag.filter(fits)
  const fault = some[Math.floor(random() * some.length)]
  if (fault !== undefined) bag.splice(bag.indexOf(fault), 1)
  return fault ?? null
}

function note(
  faults: readonly Fault[],
  { number }: { number: number },
  recovery: Recovery,
  steal: number,
): void {
  const hasStart = faults.some(({ isStart }) => isStart)
  const { ms, shredsMs, last, lastError } = recovery
  // The second is over first.
  const isAway = faults[1]?.isStart === true && faults[0]?.hits === 'registry'
  const started = startedMs + (isAway ? awayMs : 0)
  const isLate =
    ms > (hasStart ? started : backMs) * patience ||
    shredsMs > (hasStart ? started : shredsBackMs) * patience
  const names = faults.map(({ name }) => name).join(' and ')
  outcomes.push({ fault: names, isLate, steal, workMs: workMs(), ...recovery })
  const late = isLate ? ` LATE: ${last} (${lastError})` : ''
  const taken = steal < 0.05 ? '' : `, steal ${percent(steal)}`
  log(`${names} at ${number}: ${seconds(ms)} s, shreds ${seconds(shredsMs)} s${taken}${late}`)
}

/** Nothing is broken, and everything works. */
async function calm(stage: Stage, readers: Readers): Promise<void> {
  const { ms, last, lastError } = await recoveryOf(stage, performance.now())
  if (ms > hangMs) throw new Error(`before any fault: ${last}: ${lastError}`)
  await readers.audit.compare(readers.audited)
  // A new folder keeps nothing beyond a restart before its first finalized slot.
  const isKept = () => readers.audited.every(({ settled }) => settled > readers.from)
  await until(isKept, 'the first slots at every reader', hangMs)
}

function usableFaults(stage: Stage): Fault[] {
  if (stage.postgres === null) console.log('no PostgreSQL: one gateway alone')
  return named.filter((fault) => {
    const reason = fault.needs?.(stage)
    if (reason !== undefined) console.log(`not done: ${fault.name}, needs ${reason}`)
    return reason === undefined
  })
}

/** The median of several looks, after gateways and nodes have collected their garbage. */
async function memorySettled(stage: Stage): Promise<Map<string, number>> {
  const looks: Map<string, number>[] = []
  stage.collect(true)
  await pause(collectMs)
  stage.collect(false)
  for (let look = 0; look < 5; look++) {
    looks.push(memoryOf(stage))
    await pause(400)
  }
  const names = [...looks[0]!.keys()]
  return new Map(names.map((name) => [name, median(looks.map((one) => one.get(name) ?? 0))]))
}

function memory(before: Map<string, number>, after: Map<string, number>): Property {
  const name = 'memory of each process, but for pages of files, is what it was after the warm-up'
  const shown = [...after]
    .map(
      ([process, megabytes]) =>
        `${process} ${Math.round(before.get(process) ?? 0)}→${Math.round(megabytes)}`,
    )
    .join(', ')
  if (forMs < memoryRunMs) return { name, holds: null, detail: `the run is too short; ${shown} MB` }
  const grown = [...after].filter(([process, megabytes]) => {
    const first = before.get(process) ?? Number.POSITIVE_INFINITY
    if (process.endsWith(ofFiles)) return false
    return megabytes > Math.max(first * memoryGrowth, first + memorySlackMb)
  })
  return { name, holds: grown.length === 0, detail: `${shown} MB` }
}

function back(): Property {
  const late = outcomes.filter(({ isLate }) => isLate)
  const bounds = [backMs, shredsBackMs, startedMs].map((ms) => seconds(ms * patience))
  const bound = `${bounds[0]} s, shreds ${bounds[1]} s, after a start ${bounds[2]} s`
  const usualMs = median(outcomes.map((one) => one.workMs))
  const names = late.map((one) => {
    const cores = `steal ${percent(one.steal)}, cores at ${percent(usualMs / one.workMs)}`
    return `${one.fault}: ${one.last} after ${seconds(one.ms)} s (${cores})`
  })
  const taken = `steal ${percent(stealSince(ticksAtStart))} in all`
  const detail = [`${outcomes.length} faults, bound ${bound}, ${taken}`, ...names].join('; ')
  return { name: 'every endpoint is back in time', holds: late.length === 0, detail }
}

function printFaults(): void {
  console.log(`\n${'fault'.padEnd(26)} count  p50 s  max s  shreds p50  max s`)
  const nameOf = ({ fault }: Outcome) => (fault.includes(' and ') ? 'two at once' : fault)
  for (const fault of new Set(outcomes.map(nameOf))) {
    const some = outcomes.filter((one) => nameOf(one) === fault)
    const times = some.map(({ ms }) => ms)
    const shreds = some.map(({ shredsMs }) => shredsMs)
    const columns = [
      String(some.length).padStart(5),
      seconds(median(times)).padStart(6),
      seconds(Math.max(...times)).padStart(6),
      seconds(median(shreds)).padStart(11),
      seconds(Math.max(...shreds)).padStart(6),
    ]
    console.log(`${fault.padEnd(26)} ${columns.join(' ')}`)
  }
  console.log('')
}

function print({ name, holds, detail }: Property): void {
  const word = holds === null ? 'not checked' : holds ? 'pass' : 'FAIL'
  console.log(`${word}: ${name}: ${detail}`)
}

function log(text: string): void {
  console.log(`${seconds(performance.now() - beganMs).padStart(7)} s ${text}`)
}

function flagsLeft(): string {
  const { faults: only, alone } = values
  const flags = [
    only === '' ? '' : ` --faults '${only}'`,
    clients === 8 ? '' : ` --clients ${clients}`,
    patience === 1 ? '' : ` --patience ${patience}`,
    alone ? ' --alone' : '',
  ]
  return flags.join('')
}

function median(numbers: readonly number[]): number {
  return numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? 0
}

function percent(share: number): string {
  return `${Math.round(100 * share)} %`
}

function seconds(ms: number): string {
  return (ms / 1_000).toFixed(1)
}
