// `npm run fuzz -- [target…] --executions n --seed s`: fuzzes all targets, or some.
//   --keep          writes what was found into the corpus
//   --jobs n        targets at once
//   --input path    runs one input, as the message of a failure says; with --keep it becomes one of
//                   the corpus once it holds
// A failing input is written to a file; the exit code is 1.
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { Worker } from 'node:worker_threads'
import { countFlag, exitWith, readFlags } from '../testkit/flags.ts'
import { readCorpus, root, writeCorpus } from './corpus.ts'
import { runTarget } from './fuzzer.ts'
import { costOf, loadTarget, targetNames } from './targets.ts'
import type { ThreadInput, ThreadResult } from './thread.ts'

/** An input that takes longer hangs. */
const hangMs = 20_000
const watchMs = 1_000
const inputBytesMax = 1024 * 1024
/** As the main thread of the server has it: what nests must be refused before it is used up. */
const stackSizeMb = 1
const failures = join(root, '.fuzz')

const { values, positionals } = readFlags({
  executions: { type: 'string', default: '20000' },
  seed: { type: 'string', default: String(Date.now() % 1_000_000) },
  input: { type: 'string' },
  jobs: { type: 'string', default: '1' },
  keep: { type: 'boolean', default: false },
})
const unknown = positionals.filter((name) => !targetNames.includes(name))
if (unknown.length > 0)
  exitWith(`unknown target ${unknown.join(', ')}; the targets are ${targetNames.join(', ')}`)
const seed = countFlag('seed', values.seed)
const executionsMax = countFlag('executions', values.executions, 1)
const jobs = countFlag('jobs', values.jobs, 1)
if (values.input !== undefined && !existsSync(values.input)) exitWith(`no file ${values.input}`)
const names = positionals.length === 0 ? targetNames : positionals
let failed = 0
const waiting = [...names]
await Promise.all(Array.from({ length: jobs }, work))
console.log(`${names.length - failed} of ${names.length} targets without a failure`)
// Sockets and threads of targets end with the process.
process.exit(failed === 0 ? 0 : 1)

async function work(): Promise<void> {
  for (let name = waiting.shift(); name !== undefined; name = waiting.shift())
    if (!(await (values.input === undefined ? fuzz(name) : replay(name, values.input)))) failed++
}

async function replay(name: string, path: string): Promise<boolean> {
  const input = readFileSync(path)
  try {
    await runTarget(await loadTarget(name), input)
    const { defects, inputs } = readCorpus(name)
    if (values.keep) writeCorpus(name, { defects: [...defects, input], inputs })
    return true
  } catch (error) {
    console.error(error)
    return false
  }
}

async function fuzz(name: string): Promise<boolean> {
  const beganMs = performance.now()
  const state = new Int32Array(new SharedArrayBuffer(8))
  const bytes = new Uint8Array(new SharedArrayBuffer(inputBytesMax))
  const executions = Math.ceil(executionsMax / costOf(name))
  const workerData: ThreadInput = { name, seed, executions, keep: values.keep, state, bytes }
  const outcome = await outcomeOf(workerData)
  const seconds = (performance.now() - beganMs) / 1_000
  if ('executions' in outcome) {
    const { inputs, found } = outcome
    const rate = Math.round(outcome.executions / seconds)
    const corpus = `corpus ${inputs}, new ${found}`
    console.log(`${name}: ${outcome.executions} executions, ${rate}/s, ${corpus}, seed ${seed}`)
  }
  if (outcome.failure === null) return true
  report(name, seed, outcome.failure)
  return false
}

function report(name: string, seed: number, { input, message }: Failed): void {
  mkdirSync(failures, { recursive: true })
  const digest = createHash('sha256').update(input).digest('hex').slice(0, 12)
  const path = join(failures, `${name}-${digest}`)
  writeFileSync(path, input)
  console.error(`${name}: FAILED with ${input.length} bytes, seed ${seed}\n${message}`)
  console.error(`again: npm run fuzz -- ${name} --input ${relative(root, path)}`)
}

type Failed = NonNullable<ThreadResult['failure']>

/** What the thread found, or the input that it hung or died with. */
function outcomeOf(workerData: ThreadInput): Promise<ThreadResult | { readonly failure: Failed }> {
  const { state, bytes } = workerData
  return new Promise((resolve) => {
    const worker = new Worker(new URL('./thread.js', import.meta.url), {
      workerData,
      resourceLimits: { stackSizeMb },
    })
    const stopped = (message: string) => {
      clearInterval(watch)
      resolve({ failure: { input: bytes.slice(0, state[0]), message } })
      void worker.terminate()
    }
    let last = -1
    let sinceMs = performance.now()
    const watch = setInterval(() => {
      const now = Atomics.load(state, 1)
      if (now !== last) sinceMs = performance.now()
      last = now
      if (now > 0 && performance.now() - sinceMs > hangMs) stopped('the input hangs')
    }, watchMs)
    worker.once('message', (result: ThreadResult) => {
      clearInterval(watch)
      resolve(result)
      void worker.terminate()
    })
    worker.once('error', (error) => stopped(error.stack ?? String(error)))
    worker.once('exit', (code) => stopped(`the thread ended with code ${code}`))
  })
}
