// `npm run bench`: finds the benches, runs them one after another, prints tables, keeps results.
// Thread: main of the bench process.
//
// To add a bench: one file in bench/micro (single functions, threads) or bench/load (a server and
// its clients as processes) that exports `bench` of the type in lib/bench.ts. It is found in its
// folder, by its file's name; nothing is registered. Helpers: lib/single-function.ts (the
// `benchmark` package), test/testkit/process.ts (child processes; their entries lie in
// bench/<folder>/clients and are no benches), lib/native.ts (C programs from bench/native),
// src/loadtest/latencies.ts. `verify` gets every round's `evidence` and must refuse lost or wrong
// answers. A bench stays as long as a document names its figure.
import { readdirSync } from 'node:fs'
import { basename, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { messageOf } from '../src/base/errors.ts'
import { packageRoot } from '../src/base/package-root.ts'
import type { Bench } from './lib/bench.ts'
import { type BenchOptions, parseOptions, usage } from './lib/options.ts'
import { processorSeconds } from './lib/processor-time.ts'
import { formatComparison, formatResult, storeResult } from './lib/report.ts'
import { rounds, runBench } from './lib/rounds.ts'
import { runFolder, writeSummary } from './lib/runs.ts'
import { sinceRelease } from './lib/since-release.ts'
import { formatSmoked, hangSeconds, type OnceResult, runSmoke } from './lib/smoke.ts'
import { whyNoTarget } from './lib/targets.ts'

// The default action of a signal would skip the exit handlers that end the bench's servers.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1))

const options = parseOptions(process.argv.slice(2))
if (typeof options === 'string') {
  console.error(`${options}\n\n${usage}`)
  process.exitCode = 2
} else if (options.compare !== undefined) {
  console.log(formatComparison(...options.compare))
} else if (options.summary !== undefined) {
  const document = join(packageRoot(), 'docs', 'PERFORMANCE.md')
  const { text, isWritten } = writeSummary(folderOf(options), document, options.summary.commit)
  console.log(text)
  if (!isWritten) process.exitCode = 1
} else if (options.sinceRelease) {
  const { text, isOk } = await sinceRelease(progress)
  console.log(text)
  if (!isOk) process.exitCode = 1
} else if (options.once !== undefined) {
  await runOnce(options.once, options).catch((error: unknown) => {
    console.error(messageOf(error))
    process.exit(1)
  })
} else if (options.smoke) {
  await smokeAll(options)
} else {
  await runAll(options)
}

async function runAll(options: BenchOptions): Promise<void> {
  const chosen = await Promise.all(chosenFiles(options).map(loadBench))
  const folder = folderOf(options)
  const run = runFolder(folder, options)
  if ('reason' in run) console.log(`not a run for \`summary\`: ${run.reason}\n`)
  const { names: _, out: __, once: ___, token, ...shown } = options
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
      if ('folder' in run) storeResult(result, run.folder, { ...shown, rounds })
      console.log(`${formatResult(result)}  kept in ${path}\n`)
    } catch (error) {
      progress('')
      // One wrong result fails the run; the other benches still run.
      console.error(`${bench.name} FAILED: ${error instanceof Error ? error.message : error}\n`)
      process.exitCode = 1
    }
  }
}

function folderOf({ out }: BenchOptions): string {
  return out ?? join(packageRoot(), 'bench', 'results')
}

/** In a process of its own for each bench: see lib/smoke.ts. */
async function smokeAll(options: BenchOptions): Promise<void> {
  const names = chosenFiles(options).map(nameOf)
  let ok = 0
  let cpuSeconds = 0
  await runSmoke(names, {
    entry: fileURLToPath(import.meta.url),
    hangSeconds,
    onResult(result) {
      if (result.problem === undefined) ok += 1
      cpuSeconds += result.cpuSeconds ?? 0
      console.log(formatSmoked(result))
    },
  })
  const used = `${cpuSeconds.toFixed(0)} s of processor time`
  console.log(`${ok} of ${names.length} benches ended with right answers, ${used}`)
  if (ok < names.length) process.exitCode = 1
}

async function runOnce(name: string, options: BenchOptions): Promise<void> {
  const file = benchFiles().find((one) => nameOf(one) === name)
  if (file === undefined) throw new Error(`no bench ${name}`)
  const { seconds } = options
  const result = await runBench(await loadBench(file), {
    ...(seconds !== undefined && { seconds }),
    rounds: 1,
    smoke: true,
    progress,
  })
  const once: OnceResult = { ...result, cpuSeconds: processorSeconds(process.pid) }
  console.log(JSON.stringify(once))
}

/** The files of the benches that the options name; ends the process when there is none. */
function chosenFiles({ names }: BenchOptions): string[] {
  const all = benchFiles()
  const isAsked = (name: string) =>
    names.length === 0 || names.some((asked) => name === asked || name.startsWith(`${asked}-`))
  const chosen = all.filter((file) => isAsked(nameOf(file)))
  if (chosen.length > 0) return chosen
  console.error(`no such bench; there are: ${all.map(nameOf).join(', ')}`)
  process.exit(2)
}

function benchFiles(): string[] {
  const here = fileURLToPath(new URL('.', import.meta.url))
  return ['micro', 'load'].flatMap((folder) =>
    readdirSync(join(here, folder))
      .filter((file) => file.endsWith('.js'))
      .sort()
      .map((file) => join(here, folder, file)),
  )
}

/** A bench has the name of its file. */
function nameOf(file: string): string {
  return basename(file, '.js')
}

async function loadBench(file: string): Promise<Bench> {
  const { bench } = (await import(pathToFileURL(file).href)) as { bench: Bench }
  if (bench.name !== nameOf(file)) throw new Error(`${file} has the bench ${bench.name}`)
  return bench
}

/** One line on the terminal that is overwritten; on a pipe, plain lines on stderr. */
function progress(text: string): void {
  if (process.stderr.isTTY) process.stderr.write(`\r\u001b[K${text}`)
  else if (text !== '') process.stderr.write(`${text}\n`)
}
