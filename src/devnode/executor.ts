// The server's hand on the executor's child process. Thread: main. Called by chain.ts.
// What is submitted in one turn goes over the pipe as one call. A child that dies takes only what
// is in flight with it: the next one is given the ledger's state before it is asked anything.
import { accept, type Fault, type Outcome, refuse } from '../base/errors.ts'
import { SupervisedChild } from '../threads/child.ts'
import type { RestartPolicy, SupervisorDeps } from '../threads/supervisor.ts'
import type { Executed, ExecuteInput, ExecuteJob, Genesis, VmAccount } from './protocol.ts'

export interface ExecutorOptions {
  /** Everything that a new child must know, the accounts of the VM's birth left out. */
  state(): Iterable<VmAccount>
  /** What a nonce becomes that is advanced now. */
  nonce(): Uint8Array
  /** A new child did not take so many accounts; it runs without them. */
  refused(accounts: number): void
  /** Called in the order of execution, before the promise of `execute` resolves. */
  apply(job: ExecuteJob, executed: Executed): void
}

/** Back within two seconds, also after several deaths in a row. */
const backoff: RestartPolicy = { firstMs: 50, lastMs: 800, deathsMax: 40, healthyMs: 5_000 }
const jobsPerCallMax = 256
const queuedMax = 20_000
const loadBytesPerCall = 1 << 20
const callMsMax = 5_000

interface Waiting {
  readonly job: ExecuteJob
  resolve(outcome: Outcome<Executed>): void
}

export class Executor {
  readonly #options: ExecutorOptions
  #child: SupervisedChild | null = null
  #queue: Waiting[] = []
  #isFlushing = false
  /** Rises with each child, so that a load for an earlier one does not count for this one. */
  #generation = 0
  #loadedGeneration = 0

  private constructor(options: ExecutorOptions) {
    this.#options = options
  }

  /** Resolves when the first child serves. It is empty until `begin`. */
  static async start(options: ExecutorOptions, deps: SupervisorDeps): Promise<Executor> {
    const executor = new Executor(options)
    executor.#child = await SupervisedChild.start(
      { name: 'chain', entry: 'chain', backoff, onStart: () => executor.#onStart() },
      deps,
    )
    return executor
  }

  get isReady(): boolean {
    return this.#loadedGeneration === this.#generation && (this.#child?.isRunning ?? false)
  }

  get pid(): number {
    return this.#child?.pid ?? 0
  }

  get restarts(): number {
    return this.#child?.restarts ?? 0
  }

  get queued(): number {
    return this.#queue.length
  }

  genesis(keys: readonly Uint8Array[]): Promise<Genesis> {
    return this.#child!.call<Genesis>('genesis', keys, callMsMax)
  }

  /** Hands the ledger's state to the first child; later ones get it as they start. */
  begin(): Promise<void> {
    return this.#load(this.#generation)
  }

  /** Accounts that changed outside of transactions. Lost with a dead child, which is no loss. */
  write(accounts: readonly VmAccount[]): void {
    if (this.isReady) this.#child!.call('load', accounts, callMsMax).catch(() => {})
  }

  execute(job: ExecuteJob): Promise<Outcome<Executed>> {
    if (!this.isReady) return Promise.resolve(down)
    if (this.#queue.length >= queuedMax) return Promise.resolve(busy)
    return new Promise((resolve) => {
      this.#queue.push({ job, resolve })
      if (this.#isFlushing) return
      this.#isFlushing = true
      setImmediate(() => this.#flush())
    })
  }

  async simulate(bytes: Uint8Array): Promise<Outcome<Executed>> {
    if (!this.isReady) return down
    try {
      return accept(await this.#child!.call<Executed>('simulate', { bytes }, callMsMax))
    } catch (fault) {
      return refusalOf(fault)
    }
  }

  async stop(): Promise<void> {
    this.#generation += 1
    await this.#child?.stop()
  }

  #flush(): void {
    this.#isFlushing = false
    const queue = this.#queue
    this.#queue = []
    for (let at = 0; at < queue.length; at += jobsPerCallMax)
      void this.#send(queue.slice(at, at + jobsPerCallMax))
  }

  async #send(batch: readonly Waiting[]): Promise<void> {
    const input: ExecuteInput = { nonce: this.#options.nonce(), jobs: batch.map(({ job }) => job) }
    const generation = this.#generation
    let executed: Executed[]
    try {
      executed = await this.#child!.call<Executed[]>('execute', input, callMsMax)
    } catch (fault) {
      // What the child did and could not tell is not in the ledger: this child must not go on.
      if ((fault as Fault).kind !== 'child-busy') this.#endGeneration(generation)
      for (const { resolve } of batch) resolve(refusalOf(fault))
      return
    }
    batch.forEach(({ job, resolve }, index) => {
      this.#options.apply(job, executed[index]!)
      resolve(accept(executed[index]!))
    })
  }

  #endGeneration(generation: number): void {
    if (generation === this.#generation) this.#child?.kill()
  }

  #onStart(): void {
    this.#generation += 1
    // The first child is loaded by `begin`, when there is something to load.
    const generation = this.#generation
    if (generation > 1) void this.#load(generation).catch(() => this.#endGeneration(generation))
  }

  async #load(generation: number): Promise<void> {
    let chunk: VmAccount[] = []
    let bytes = 0
    let refused = 0
    const flush = async () => {
      refused += await this.#child!.call<number>('load', chunk, callMsMax)
      chunk = []
      bytes = 0
    }
    for (const account of this.#options.state()) {
      chunk.push(account)
      bytes += account.data.length + 128
      if (bytes >= loadBytesPerCall) await flush()
      if (generation !== this.#generation) return
    }
    await flush()
    if (refused > 0) this.#options.refused(refused)
    if (generation === this.#generation) this.#loadedGeneration = generation
  }
}

const down = refuse('unavailable', 'chain-down', 'Node is unhealthy', {
  data: { numSlotsBehind: null },
})
const busy = refuse('unavailable', 'chain-busy', 'the chain has too much to do')

function refusalOf(fault: unknown): Outcome<never> {
  const kind = (fault as Partial<Fault>).kind
  return kind === 'child-busy' ? busy : down
}
