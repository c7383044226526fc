// Judges the samples of a soak: the slope of each series since all bounds were full, whether memory
// stayed below its bound, whether the load was answered to the end; as a table and plots.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Plot, plotSvg } from '../../src/loadtest/plot.ts'
import { blocksOf, quantileOf, type Slope, slopeOf } from './slope.ts'
import { fullMsOf, type Sample, type SoakHead } from './soak.ts'

export interface SoakRun {
  readonly head: SoakHead
  readonly samples: readonly Sample[]
}

interface Line {
  readonly name: string
  readonly isBytes: boolean
  readonly from: number
  readonly most: number
  readonly last: number
  /** Per hour; null with too few samples. */
  readonly slope: Slope | null
  readonly isRising: boolean
}

export interface Verdict {
  readonly lines: readonly Line[]
  readonly fullMs: number | null
  readonly problems: readonly string[]
}

const hourMs = 3_600_000
const mebibyte = 2 ** 20
/** Blocks of samples whose least is judged: enough for an interval, few enough to be independent. */
const blocksWanted = 20
/** Of all lines of a run together. */
const errorProbability = 0.05
/** What a rise is at least over the time judged: an allocator's granularity, one handle. */
const riseMin = { bytes: mebibyte, count: 1 }
/** The last part of a run in which every endpoint must have answered. */
const lastShare = 0.2

export function readSamples(folder: string): SoakRun[] {
  const files = readdirSync(folder).filter((name) => name.endsWith('.ndjson'))
  return files.map((name) => {
    const [head, ...samples] = readFileSync(join(folder, name), 'utf8')
      .split('\n')
      .filter((line) => line.endsWith('}'))
      .map((line) => JSON.parse(line))
    return { head, samples } as SoakRun
  })
}

export function judge({ head, samples }: SoakRun): Verdict {
  const fullMs = fullMsOf(head, samples)
  // A bound that was not reached is a problem of its own; the rest is judged from the planned time.
  const fromMs = Math.max(fullMs ?? 0, head.fillMs)
  const judged = samples.filter(({ atMs }) => atMs >= fromMs)
  const names = Object.keys(judged[0]?.figures ?? {})
  const z = quantileOf(errorProbability / Math.max(1, names.length))
  const lines = names.map((name) => lineOf(name, judged, z))
  const problems = [
    ...unfilled(head, samples),
    ...lines.filter(({ isRising }) => isRising).map(({ name }) => `${name} rises`),
    ...(lines.some(({ slope }) => slope === null) ? ['too few samples for a slope'] : []),
    ...overBound(head, samples),
    ...unanswered(samples),
  ]
  return { lines, fullMs, problems }
}

function lineOf(name: string, judged: readonly Sample[], z: number): Line {
  const points = judged.map(({ atMs, figures }) => [atMs / hourMs, figures[name] ?? 0] as const)
  const values = points.map(([, value]) => value)
  const isBytes = !/ (descriptors|threads|handles)$/.test(name)
  const blocks = blocksOf(points, Math.max(1, Math.floor(points.length / blocksWanted)))
  const slope = slopeOf(blocks, z)
  const hours = (points.at(-1)?.[0] ?? 0) - (points[0]?.[0] ?? 0)
  const least = isBytes ? riseMin.bytes : riseMin.count
  return {
    ...{ name, isBytes, slope, from: values[0] ?? 0, last: values.at(-1) ?? 0 },
    most: values.reduce((a, b) => Math.max(a, b), 0),
    isRising: slope !== null && slope.low > 0 && slope.value * hours >= least,
  }
}

function unfilled({ bounds, fillMs }: SoakHead, samples: readonly Sample[]): string[] {
  return bounds
    .filter(({ name, most }) => fullMsOf({ bounds: [{ name, most }] }, samples) === null)
    .map(({ name, most }) => {
      const level = samples.at(-1)?.bounds[name] ?? 0
      return `${name}: ${level} of ${most}, not full (planned: ${Math.round(fillMs / 60_000)} min)`
    })
}

function overBound({ memoryMax }: SoakHead, samples: readonly Sample[]): string[] {
  return Object.entries(memoryMax).flatMap(([program, max]) => {
    const most = mostOf(samples, `${program} pss`)
    return most <= max ? [] : [`${program}: memory of ${most} bytes exceeds its bounds, ${max}`]
  })
}

function mostOf(samples: readonly Sample[], name: string): number {
  return samples.reduce((most, { figures }) => Math.max(most, figures[name] ?? 0), 0)
}

/** Endpoints without an answer in the last part of the run. */
function unanswered(samples: readonly Sample[]): string[] {
  const before = samples[Math.floor((samples.length - 1) * (1 - lastShare))]?.load.got ?? {}
  const last = samples.at(-1)?.load
  const silent = Object.keys(before).filter((name) => (last?.got[name] ?? 0) <= before[name]!)
  return silent.map((name) => `${name} was not answered: ${last?.lastFailure[name] ?? 'silence'}`)
}

export function reportOf(
  folder: string,
  runs: readonly SoakRun[],
  verdicts: readonly Verdict[],
): string {
  const text = runs.map((run, index) => textOf(run, verdicts[index]!)).join('\n')
  writeFileSync(join(folder, 'report.txt'), text)
  for (const { head, samples } of runs)
    for (const [name, plot] of plotsOf(head, samples))
      writeFileSync(join(folder, `${head.name.replaceAll(' ', '-')}-${name}.svg`), plotSvg(plot))
  return text
}

function textOf({ head, samples }: SoakRun, { lines, fullMs, problems }: Verdict): string {
  const minutes = (ms: number) => `${(ms / 60_000).toFixed(1)} min`
  const shown = ({ isBytes }: Line, value: number) =>
    isBytes ? (value / mebibyte).toFixed(1) : value.toFixed(1)
  const last = samples.at(-1)
  const rows = lines.map((line) => [
    `${line.name}${line.isBytes ? ', MiB' : ''}`,
    ...[line.from, line.most, line.last].map((value) => shown(line, value)),
    line.slope === null ? '-' : shown(line, line.slope.value),
    line.slope === null ? '-' : `${shown(line, line.slope.low)} to ${shown(line, line.slope.high)}`,
    line.isRising ? 'RISES' : '',
  ])
  const bounded = Object.entries(head.memoryMax).map(([program, max]) => {
    const most = Math.round(mostOf(samples, `${program} pss`) / mebibyte)
    return `${program} ${most} of ${Math.round(max / mebibyte)}`
  })
  return [
    `== ${head.name}: ${minutes(last?.atMs ?? 0)}, ${samples.length} samples; ` +
      `all bounds full after ${fullMs === null ? '-' : minutes(fullMs)}`,
    `   memory at most, of its bounds, MiB: ${bounded.join(', ')}`,
    `   load ${JSON.stringify(last?.load)}`,
    table([['series', 'from', 'most', 'last', 'per hour', 'interval', ''], ...rows]),
    ...(problems.length === 0 ? ['   flat'] : problems.map((problem) => `!! ${problem}`)),
    '',
  ].join('\n')
}

function table(rows: readonly (readonly string[])[]): string {
  const widths = rows[0]!.map((_, at) => Math.max(...rows.map((row) => row[at]!.length)))
  return rows
    .map((row) =>
      row
        .map((cell, at) => (at === 0 ? cell.padEnd(widths[at]!) : cell.padStart(widths[at]!)))
        .join('  '),
    )
    .join('\n')
}

function plotsOf({ name }: SoakHead, samples: readonly Sample[]): [string, Plot][] {
  const lines = Object.keys(samples[0]?.figures ?? {})
  const plot = (title: string, y: string, of: (line: string) => boolean, unit: number): Plot => ({
    title: `${name}: ${title}`,
    x: { kind: 'linear', title: 'minutes' },
    y: { kind: 'linear', title: y },
    lines: lines.filter(of).map((line) => ({
      name: line,
      points: samples.map(({ atMs, figures }) => [atMs / 60_000, (figures[line] ?? 0) / unit]),
    })),
  })
  const counts = / (descriptors|threads|handles)$/
  return [
    ['memory', plot('memory', 'MiB, PSS', (line) => line.endsWith(' pss'), mebibyte)],
    [
      'own',
      plot('own memory', 'MiB, PSS without files', (line) => line.endsWith(' own'), mebibyte),
    ],
    ['heap', plot('heap', 'MiB', (line) => /heap|external/.test(line), mebibyte)],
    ['counts', plot('descriptors, threads, handles', 'count', (line) => counts.test(line), 1)],
  ]
}
