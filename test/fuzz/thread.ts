// Fuzzes one target. Thread: one of its own, whose coverage is that of the target alone and which
// can be ended when an input hangs it.
import { parentPort, workerData } from 'node:worker_threads'
import { readCorpus, writeCorpus } from './corpus.ts'
import { Coverage } from './coverage.ts'
import { Fuzzer } from './fuzzer.ts'
import { filesOf, loadTarget } from './targets.ts'

export interface ThreadInput {
  readonly name: string
  readonly seed: number
  readonly executions: number
  /** Whether the corpus is written again with what was found. */
  readonly keep: boolean
  /** The input that is being run: its length, and how many were run before it. */
  readonly state: Int32Array
  readonly bytes: Uint8Array
}

export interface ThreadResult {
  readonly executions: number
  readonly inputs: number
  readonly found: number
  readonly failure: { readonly input: Uint8Array; readonly message: string } | null
}

// Reason for the cast: run.ts starts it with this.
const { name, seed, executions, keep, state, bytes } = workerData as ThreadInput
const files = filesOf(name)
// Before the target is loaded.
const coverage = new Coverage((url) => files.some((file) => url.includes(`/src/${file}`)))
const target = await loadTarget(name)
const { defects, inputs } = readCorpus(name)
const fuzzer = new Fuzzer(target, coverage, {
  seed,
  executions,
  corpus: inputs,
  defects,
  began(input) {
    state[0] = input.length
    bytes.set(input.subarray(0, bytes.length))
    Atomics.add(state, 1, 1)
  },
})
const run = await fuzzer.run()
if (keep && run.failure === null)
  writeCorpus(name, { defects, inputs: (await fuzzer.smallest()).map((one) => Buffer.from(one)) })
await target.stop?.()
const result: ThreadResult = {
  executions: run.executions,
  inputs: run.corpus.length,
  found: run.found,
  failure:
    run.failure === null
      ? null
      : { input: run.failure.input, message: messageOf(run.failure.error) },
}
parentPort!.postMessage(result)
coverage.stop()

function messageOf(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error)
}
