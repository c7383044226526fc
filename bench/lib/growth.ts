// A bench that measures the same operations at growing sizes. Thread: main of the bench process.
// Each size has a process of its own: the heap of a large one must not slow a small one down. Cost
// is processor time, which a busy machine changes least.
import { type BenchProcess, startProcess } from '../../test/testkit/process.ts'
import type { Bench, Contender, Measurement, Point } from './bench.ts'

/** One kind of operation at one size. */
export interface Work {
  /** Does one operation, or several; returns how many. */
  step(): number | Promise<number>
  /** Operations between two turns of the event loop; 1 when left out. */
  readonly stepsPerTurn?: number
  /** Memory for each entry. */
  readonly bytesPerEntry?: number
  /** What is wrong with the operations since the last call. */
  problem?(operations: number): string | undefined
}

/** The operations at a size, by the name of their line. A bench file exports it as `open`. */
export type OpenWorks = (size: number) => Promise<Readonly<Record<string, Work>>>

export interface Growth {
  readonly name: string
  readonly question: string
  /** What grows. */
  readonly axis: string
  readonly sizes: readonly number[]
  /** Sizes above it are measured with `--full` only. */
  readonly sizeMax?: number
  readonly lines: readonly string[]
  /** The bench file itself, whose `open` the processes call. */
  readonly file: string
  missing?(): string | undefined | Promise<string | undefined>
}

/** Of each line, size and round. */
const seconds = 0.25
const entry = new URL('../micro/clients/growth-process.js', import.meta.url)

export function growthBench(growth: Growth): Bench {
  const processes = new Map<number, Promise<BenchProcess>>()
  const [baseline, ...candidates] = growth.lines.flatMap((line) =>
    growth.sizes.map((size) => contenderOf(growth, { line, size }, processes)),
  )
  return {
    name: growth.name,
    question: growth.question,
    cores: 1,
    seconds,
    axis: growth.axis,
    baseline: baseline!,
    candidates,
    smoke: growth.lines.map((line) => nameOf({ line, size: growth.sizes[0]! })),
    verify: ({ evidence }) => evidence?.problem as string | undefined,
  }
}

function contenderOf(
  { file, sizeMax = Number.POSITIVE_INFINITY, missing }: Growth,
  point: Point,
  processes: Map<number, Promise<BenchProcess>>,
): Contender {
  const { line, size } = point
  return {
    name: nameOf(point),
    point,
    missing: ({ full }) => (size > sizeMax && full !== true ? '--full measures it' : missing?.()),
    async prepare({ smoke }) {
      const started = processes.get(size) ?? startSize(file, size, smoke !== true)
      processes.set(size, started)
      await started
    },
    async run({ seconds }) {
      const child = await processes.get(size)!
      return await child.call<Measurement>('run', { line, seconds })
    },
    async close() {
      const child = processes.get(size)
      processes.delete(size)
      await (await child)?.stop()
    },
  }
}

function nameOf({ line, size }: Point): string {
  return `${line}, ${size.toLocaleString('en')}`
}

async function startSize(file: string, size: number, isWarm: boolean): Promise<BenchProcess> {
  const child = startProcess(entry)
  await child.call('open', { file, size, isWarm })
  return child
}
