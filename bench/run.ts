// `npm run bench`: finds the benches, runs them one after another, prints tables, keeps results.
// Thread: main of the bench process.
//
// To add a bench: one file in bench/micro (single functions, threads) or bench/load (a server and
// its clients as processes) that exports `bench` of the type in lib/bench.ts. It is found in its
// folder; nothing is registered. Helpers: lib/single-function.ts (the `benchmark` package),
// lib/process.ts (child processes; their entries lie in bench/<folder>/clients and are no
// benches), lib/native.ts (C programs from bench/native), lib/histogram.ts (latencies). `verify`
// gets every round's `evidence` and must refuse lost or wrong answers.
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { packageRoot } from '../src/threads/entry.ts'
import type { Bench } from './lib/bench.ts'
import { type BenchOptions, parseOptions, usage } from './lib/options.ts'
import { formatComparison, formatResult, storeResult } from './lib/report.ts'
import { rounds, runBench } from './lib/rounds.ts'
import { whyNoTarget } from './lib/targets.ts'

// The default action of a signal would skip the exit handlers that end the bench's servers.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1))

const options = parseOptions(process.argv.slice(2))
if (typeof options === 'string') {
  console.error(`${options}\n\n${usage}`)
  process.exitCode = 2
} else if (options.compare !== undefined) {
  console.log(formatComparison(...options.compare))
} else {
  await runAll(options)
}

async function runAll(options: BenchOptions): Promise<void> {
  const all = await findBenches()
  const isAsked = ({ name }: Bench) =>
    options.names.length === 0 ||
    options.names.some((asked) => name === asked || name.startsWith(`${asked}-`))
  const chosen = all.filter(isAsked)
  if (chosen.length === 0) {
    console.error(`no such bench; there are: ${all.map(({ name }) => name).join(', ')}`)
    process.exitCode = 2
    return
  }
  const folder = options.out ?? join(packageRoot(), 'bench', 'results')
  const { names: _, out: __, token, ...shown } = options
  for (const bench of chosen) {
    const reason = options.target === undefined ? undefined : whyNoTarget(bench.name)
    if (reason !== undefined) {
      console.log(`${bench.name} cannot be aimed at a deployment: ${reason}\n`)
      continue
    }
    try {
      const result = await runBench(bench, { ...shown, ...(token && { token }), progress })
      progress('')
      const path = storeResult(result, folder, { ...shown, rounds })
      console.log(`${formatResult(result)}  kept in ${path}\n`)
    } catch (error) {
      progress('')
      // One wrong result fails the run; the other benches still run.
      console.error(`${bench.name} FAILED: ${error instanceof Error ? error.message : error}\n`)
      process.exitCode = 1
    }
  }
}

async function findBenches(): Promise<Bench[]> {
  const here = fileURLToPath(new URL('.', import.meta.url))
  const files = ['micro', 'load']
    .map((folder) => join(here, folder))
    .filter((folder) => existsSync(folder))
    .flatMap((folder) =>
      readdirSync(folder)
        .filter((file) => file.endsWith('.js'))
        .sort()
        .map((file) => join(folder, file)),
    )
  const modules = await Promise.all(
    files.map((file) => import(pathToFileURL(file).href) as Promise<{ bench?: Bench }>),
  )
  return modules.flatMap(({ bench }) => bench ?? [])
}

/** One line on the terminal that is overwritten; on a pipe, plain lines on stderr. */
function progress(text: string): void {
  if (process.stderr.isTTY) process.stderr.write(`\r\u001b[K${text}`)
  else if (text !== '') process.stderr.write(`${text}\n`)
}
