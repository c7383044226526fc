// Looks for inputs of a target that break its property: changes inputs that are known, and keeps
// each one that reaches code which none before it did.
//
//   corpus ─► change ─► run ─► … a batch … ─► new coverage? ─► which of them ─► corpus
//                        └─ throws ─► smaller while it throws the same ─► failure
//
// The same seed and corpus give the same run.
import type { Coverage } from './coverage.ts'
import { mutate } from './mutate.ts'
import { Chance, type Target } from './target.ts'

const bytesMaxUsual = 4096
/** Executions between two looks: few while much is new. */
const batchMin = 32
const batchMax = 1024
/** Runs to make a failure smaller. */
const shrinkRunsMax = 3_000
/** The long comparison runs with one in so many inputs. */
const comparedOneIn = 200
/** The newest inputs are changed more often: one in two of these. */
const newestCount = 16

export interface Entry {
  readonly bytes: Uint8Array
}

export interface Failure {
  readonly input: Buffer
  readonly error: unknown
}

export interface FuzzRun {
  readonly executions: number
  readonly corpus: readonly Entry[]
  /** Inputs that were kept in this run. */
  readonly found: number
  readonly failure: Failure | null
}

export interface FuzzOptions {
  readonly seed: number
  readonly executions: number
  readonly corpus: readonly Uint8Array[]
  /** Run once, and not changed. */
  readonly defects?: readonly Uint8Array[]
  /** Called before each execution: whoever watches for a hang knows the input. */
  readonly began?: (input: Buffer) => void
}

export class Fuzzer {
  readonly #target: Target
  readonly #coverage: Coverage
  readonly #options: FuzzOptions
  readonly #chance: Chance
  readonly #corpus: Entry[] = []
  readonly #words: readonly Uint8Array[]
  #executions = 0
  #failure: Failure | null = null

  constructor(target: Target, coverage: Coverage, options: FuzzOptions) {
    this.#target = target
    this.#coverage = coverage
    this.#options = options
    this.#chance = new Chance(options.seed)
    this.#words = (target.words ?? []).map((word) => Buffer.from(word as string))
  }

  async run(): Promise<FuzzRun> {
    for (const bytes of this.#options.defects ?? []) await this.#execute(Buffer.from(bytes), true)
    const known = [...this.#target.seeds(), ...this.#options.corpus]
    for (const bytes of known) {
      this.#corpus.push({ bytes })
      await this.#execute(Buffer.from(bytes), true)
    }
    this.#coverage.look(true)
    const begun = this.#corpus.length
    let batch = batchMin
    while (this.#failure === null && this.#executions < this.#options.executions)
      batch = (await this.#search(batch)) ? Math.max(batchMin, batch / 2) : batch * 2
    const failure = this.#failure === null ? null : await this.#smaller(this.#failure)
    const found = this.#corpus.length - begun
    return { executions: this.#executions, corpus: this.#corpus, found, failure }
  }

  /** The fewest and shortest of the inputs that reach all the code that all of them reach. */
  async smallest(): Promise<Uint8Array[]> {
    this.#coverage.forget()
    const kept: Uint8Array[] = []
    const byLength = [...this.#corpus].sort((a, b) => a.bytes.length - b.bytes.length)
    for (const { bytes } of byLength) {
      await this.#execute(Buffer.from(bytes), true)
      if (this.#coverage.look(true) > 0) kept.push(bytes)
    }
    return kept
  }

  /** True when something new was found. */
  async #search(count: number): Promise<boolean> {
    const inputs: Buffer[] = []
    const left = this.#options.executions - this.#executions
    for (let n = 0; n < Math.min(count, batchMax, left) && this.#failure === null; n++) {
      const input = this.#change()
      inputs.push(input)
      await this.#execute(input, this.#chance.below(comparedOneIn) === 0)
    }
    if (this.#failure !== null || this.#coverage.look(false) === 0) return false
    await this.#keepNew(inputs)
    return true
  }

  /** Runs the halves again, down to the inputs that reach something new. */
  async #keepNew(inputs: readonly Buffer[]): Promise<void> {
    for (const input of inputs) await this.#execute(input, false)
    if (this.#failure !== null || this.#coverage.look(inputs.length === 1) === 0) return
    if (inputs.length === 1) {
      this.#corpus.push({ bytes: inputs[0]! })
      await this.#execute(inputs[0]!, true)
      return
    }
    const middle = inputs.length >> 1
    await this.#keepNew(inputs.slice(0, middle))
    await this.#keepNew(inputs.slice(middle))
  }

  #change(): Buffer {
    const chance = this.#chance
    const corpus = this.#corpus
    const newest = chance.below(2) === 0 ? Math.max(0, corpus.length - newestCount) : 0
    const { bytes } = corpus[newest + chance.below(corpus.length - newest)]!
    const bytesMax = this.#target.bytesMax ?? bytesMaxUsual
    const own = this.#target.change?.bind(this.#target)
    if (own !== undefined && chance.below(2) === 0)
      return Buffer.from(own(Buffer.from(bytes), chance)).subarray(0, bytesMax)
    return mutate(bytes, chance, { others: corpus, words: this.#words, bytesMax })
  }

  async #execute(input: Buffer, isCompared: boolean): Promise<void> {
    this.#executions++
    this.#options.began?.(input)
    try {
      await runTarget(this.#target, input, isCompared)
    } catch (error) {
      this.#failure ??= { input, error }
    }
  }

  /** Leaves out pieces of the input while it fails with the same message. */
  async #smaller({ input, error }: Failure): Promise<Failure> {
    const kind = kindOf(error)
    let best = input
    let runs = 0
    for (let piece = input.length >> 1; piece >= 1 && runs < shrinkRunsMax; ) {
      let isSmaller = false
      for (let at = 0; at < best.length && runs < shrinkRunsMax; runs++) {
        const shorter = Buffer.concat([best.subarray(0, at), best.subarray(at + piece)])
        const failed = await failureOf(this.#target, shorter)
        if (failed !== null && kindOf(failed) === kind) {
          best = shorter
          isSmaller = true
        } else at += piece
      }
      if (!isSmaller) piece >>= 1
    }
    return { input: best, error: (await failureOf(this.#target, best)) ?? error }
  }
}

/** Runs the property with copies, and the long comparison where it is wanted. */
export async function runTarget(target: Target, input: Buffer, isCompared = true): Promise<void> {
  const result = target.run(Buffer.from(input))
  // Most targets are synchronous: waiting for nothing would cost more than they do.
  if (result !== undefined) await result
  if (isCompared && target.compare !== undefined) await target.compare(Buffer.from(input))
}

async function failureOf(target: Target, input: Buffer): Promise<unknown> {
  try {
    await runTarget(target, input)
    return null
  } catch (error) {
    return error ?? new Error('thrown without a reason')
  }
}

/** The place, not the values: a smaller input has others. */
function kindOf(error: unknown): string {
  const { name, message, stack = '' } = error instanceof Error ? error : new Error(String(error))
  const own = stack.split('\n').find((line) => /\/(src|test)\//.test(line)) ?? ''
  return `${name} ${message.split('\n', 1)[0]!.replaceAll(/\d+/g, 'n').slice(0, 80)} ${own}`
}
