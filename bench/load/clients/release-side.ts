// One side of `since-release`: loads the cheap benches of the tree that its argument names and runs
// a round of one when asked: operations per second of processor time.
// Thread: the only one of its process.
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { serveBench } from '../../../test/testkit/process.ts'
import type { Bench, Contender } from '../../lib/bench.ts'

interface Side {
  readonly bench: Bench
  readonly contender: Contender
}

const context = { seconds: 0.3 }
/** Their files, newest name first: 0.2.0 has the second one. */
const files: Readonly<Record<string, readonly string[]>> = {
  'rpc-endpoint-cpu': ['load/rpc-endpoint-cpu', 'load/rpc-door-cpu'],
  'token-quota': ['micro/token-quota'],
}
const root = process.argv[2]!
const loaded = new Map<string, Promise<Side>>()

serveBench({
  async round(name: string): Promise<number> {
    const side = loaded.get(name) ?? load(name)
    loaded.set(name, side)
    return roundOf(await side)
  },
})

async function load(name: string): Promise<Side> {
  const paths = files[name]!.map((file) => join(root, 'dist', 'bench', `${file}.js`))
  const path = paths.find((one) => existsSync(one))
  if (path === undefined) throw new Error(`${root} has no bench ${name}`)
  const { bench } = (await import(pathToFileURL(path).href)) as { bench: Bench }
  const contender = bench.candidates.find(({ name }) => /token, budget|token and quota/.test(name))
  if (contender === undefined) throw new Error(`${path} has no contender with token and quota`)
  await contender.prepare?.(context)
  return { bench, contender }
}

async function roundOf({ bench, contender }: Side): Promise<number> {
  const before = process.cpuUsage()
  const measurement = await contender.run(context)
  const { user, system } = process.cpuUsage(before)
  const problem = bench.verify(measurement, contender.name)
  if (problem !== undefined) throw new Error(`${bench.name}: ${problem}`)
  // A server counts its own time. Functions are measured by the clock; their calls are counted,
  // those before the measurement included, and used the time of this process.
  const asked = measurement.evidence?.asked
  return typeof asked === 'number' ? (asked * 1e6) / (user + system) : measurement.opsPerSecond
}
