// Runs one server of a soak under its load and writes a line of figures for each sample, so that
// what was measured survives an end half-way.
import { appendFileSync, existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { ExpositionText } from '../../src/client/exposition-text.ts'
import type { MemoryBounds } from '../../src/operator/topology/memory-bounds.ts'
import { topology } from '../../src/topology.ts'
import { type Server, sluice, startServer } from '../testkit/server.ts'
import { hangMs, until } from '../testkit/until.ts'
import { type LoadCounts, SoakLoad } from './load.ts'
import { type Figures, figuresOf } from './samples.ts'
import { type Bound, folderBytes, fullShare, plateauShare, type Setting } from './settings.ts'

export interface SoakPlan {
  readonly forMs: number
  readonly fillMs: number
  readonly everyMs: number
  readonly folder: string
  /** Ends it early: what was sampled is judged. */
  readonly signal?: AbortSignal
}

/** The first line of a file of samples. */
export interface SoakHead {
  readonly name: string
  readonly config: Setting['config']
  readonly forMs: number
  readonly fillMs: number
  readonly everyMs: number
  readonly bounds: readonly { readonly name: string; readonly most: number }[]
  /** Bounds of memory of each program and of all, by `sluice doctor` before the start. */
  readonly memoryMax: Readonly<Record<string, number>>
}

export interface Sample {
  readonly atMs: number
  readonly figures: Figures
  /** How full each bound is. */
  readonly bounds: Readonly<Record<string, number>>
  readonly load: LoadCounts
}

const processNames = new Set(
  Object.values(topology)
    .flatMap(({ owns = [] }) => owns.filter(({ kind }) => kind === 'process'))
    .map(({ name }) => name),
)
/** Gauges of the server's own process. */
const ownMeters = {
  'server heap used': 'process_heap_used_bytes',
  'server heap size': 'process_heap_size_bytes',
  'server external': 'process_external_memory_bytes',
  'server handles': 'process_open_handles',
}

export async function soak(setting: Setting, plan: SoakPlan): Promise<void> {
  const file = join(plan.folder, `${setting.name.replaceAll(' ', '-')}.ndjson`)
  if (existsSync(file)) throw new Error(`${file} exists: samples of another run`)
  // YAML, of which JSON is a part.
  const config = file.replace(/ndjson$/, 'yaml')
  writeFileSync(config, JSON.stringify(setting.config))
  writeFileSync(file, `${JSON.stringify(await headOf(setting, plan, config))}\n`)
  const server = await startServer({ isWhole: true, flags: [`--config=${config}`] })
  const load = new SoakLoad(server)
  try {
    await load.start()
    const startedMs = performance.now()
    const isOver = () => {
      const ranMs = performance.now() - startedMs
      if (plan.signal?.aborted === true) return true
      // A busy machine may not have answered all within a short run.
      return ranMs >= plan.forMs && (load.isAnswered || ranMs >= plan.forMs + hangMs)
    }
    for (let nextMs = startedMs; !isOver(); ) {
      nextMs += plan.everyMs
      await pause(Math.max(0, nextMs - performance.now()))
      const sample = await sampleOf(setting, server, performance.now() - startedMs)
      appendFileSync(file, `${JSON.stringify({ ...sample, load: load.counts })}\n`)
      if (server.child.exitCode !== null || server.child.signalCode !== null)
        throw new Error(`the server ended: ${server.stderr().slice(-2_000)}`)
    }
  } finally {
    await load.stop()
    await server.dispose()
  }
}

async function headOf(setting: Setting, plan: SoakPlan, file: string): Promise<SoakHead> {
  const { forMs, fillMs, everyMs } = plan
  return {
    ...{ name: setting.name, config: setting.config, forMs, fillMs, everyMs },
    bounds: setting.bounds.map(({ name, most }) => ({ name, most })),
    memoryMax: await memoryMaxOf(file),
  }
}

/** What `sluice doctor` prints; processes are rows of their own, all else is in the server. */
export async function memoryMaxOf(configFile: string): Promise<Record<string, number>> {
  const words = ['doctor', '--output=json', `--config=${configFile}`]
  // Its exit code is 1 on a machine that fails a check; what it found is there all the same.
  const { stdout } = await sluice(`${configFile}.none`, ...words)
  const { memory } = JSON.parse(stdout) as { memory: MemoryBounds }
  const sums: Record<string, number> = { all: memory.bytes }
  for (const { name, bytes } of memory.rows) {
    const program = processNames.has(name) ? name : 'server'
    sums[program] = (sums[program] ?? 0) + bytes
  }
  return sums
}

async function sampleOf(
  { bounds }: Setting,
  server: Server,
  atMs: number,
): Promise<Omit<Sample, 'load'>> {
  let text = ''
  // A machine that is busy elsewhere may make one scrape late.
  await until(async () => {
    const response = await fetch(`${server.url('metrics')}/metrics`)
    text = await response.text()
    return response.ok
  }, 'the meters')
  const meters = new ExpositionText(text)
  const own = Object.entries(ownMeters).map(([name, meter]) => [name, meters.sum(meter)] as const)
  return {
    atMs,
    figures: { ...figuresOf(server.child.pid!), ...Object.fromEntries(own) },
    bounds: Object.fromEntries(bounds.map((bound) => [bound.name, levelOf(bound, meters, server)])),
  }
}

function levelOf({ reads }: Bound, meters: ExpositionText, { data }: Server): number {
  return 'meter' in reads ? meters.sum(reads.meter) : folderBytes(join(data, reads.folder))
}

/**
 * When the last of the bounds was full; null if one was not. Lumps (segments, files) keep a bound
 * from being full to the last byte: it is when it holds nearly as much as it ever did.
 */
export function fullMsOf(
  { bounds }: Pick<SoakHead, 'bounds'>,
  samples: readonly Sample[],
): number | null {
  const times = bounds.map(({ name, most }) => {
    const levels = samples.map((sample) => sample.bounds[name] ?? 0)
    const highest = levels.reduce((a, b) => Math.max(a, b), 0)
    // A counter that only rises is full as soon as it has passed the bound.
    const enough = Math.min(most, highest * plateauShare)
    if (highest < most * fullShare) return null
    return samples[levels.findIndex((level) => level >= enough)]?.atMs ?? null
  })
  return times.includes(null) ? null : Math.max(...(times as number[]))
}
