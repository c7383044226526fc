// The parent's side of the devnode's process: starts it, restarts it on the same ports, stops it,
// writes its log lines and keeps the meters of the chain.
// A native abort or kill -9 costs a restart from the journal.
import { Fault } from '../base/errors.ts'
import type { Meters } from '../base/telemetry/meters.ts'
import type { RestartPolicy, SupervisorDeps } from '../base/threads/supervisor.ts'
import { SupervisedChild } from '../base/threads/supervisor.ts'
import { type ChainMeters, declareChainMeters } from './meters.ts'
import type { DevnodeAddresses, DevnodeOptions, NodeAddresses, NodePorts } from './node.ts'
import type { DevnodeStats, LogLine } from './reports.ts'
import type { ShredTarget } from './shred-feed.ts'

export interface DevnodeDeps extends Pick<SupervisorDeps, 'clock' | 'log' | 'onDown'> {
  readonly meters: Meters
}

/** Back within two seconds, also after several deaths in a row. */
const backoff: RestartPolicy = { firstMs: 50, lastMs: 800, deathsMax: 40, healthyMs: 5_000 }
const startMsMax = 30_000
/** Longer than a snapshot of the ledger takes. */
const stopMsMax = 10_000

export class DevnodeProcess {
  readonly #options: DevnodeOptions
  readonly #deps: DevnodeDeps
  readonly #meters: ChainMeters
  #child: SupervisedChild | null = null
  #addresses: DevnodeAddresses | null = null
  #shreds: ShredTarget | null
  #stats: DevnodeStats | null = null

  private constructor(options: DevnodeOptions, deps: DevnodeDeps) {
    this.#options = options
    this.#shreds = options.shreds
    this.#deps = deps
    this.#meters = declareChainMeters(deps.meters)
  }

  /** Resolves when every endpoint of the node is open. */
  static async start(options: DevnodeOptions, deps: DevnodeDeps): Promise<DevnodeProcess> {
    const node = new DevnodeProcess(options, deps)
    await node.#start()
    return node
  }

  get addresses(): DevnodeAddresses {
    return this.#addresses!
  }

  /** What its callers send as x-token; '' where it serves everybody. */
  get xToken(): string {
    return this.#options.secret ?? ''
  }

  /** Of the last report. */
  get stats(): DevnodeStats {
    return this.#stats!
  }

  /** Whether a process serves: one that starts does not yet. */
  get isUp(): boolean {
    return this.#addresses !== null && this.pid === this.#addresses.pid
  }

  /** Of the current process; 0 while no process runs. */
  get pid(): number {
    return this.#child?.pid ?? 0
  }

  /** Sends the chain's shreds to this address, also after a restart. */
  async sendShreds(target: ShredTarget): Promise<void> {
    this.#shreds = target
    await this.#child?.call('sendShreds', target, startMsMax)
  }

  async stop(): Promise<void> {
    await this.#child?.stop()
  }

  async #start(): Promise<void> {
    const meters = this.#meters
    this.#child = await SupervisedChild.start(
      {
        name: 'devnode',
        entry: 'devnode',
        backoff,
        stopMsMax,
        onStart: () => void this.#restart(),
        onEvent: (event, data) => this.#receive(event, data),
      },
      { ...this.#deps, restarts: meters.executorRestarts, up: meters.executorUp },
    )
    try {
      this.#addresses = await this.#child.call('start', this.#options, startMsMax)
    } catch (error) {
      await this.#child.stop()
      throw error instanceof Fault ? new Fault('devnode-start', error.message) : error
    }
    meters.watch({
      slot: () => this.stats.slots.processed,
      accounts: () => this.stats.accounts,
      historyBytes: () => this.stats.historyBytes,
    })
  }

  /** A new process opens the same ports; one that cannot is killed, and the next one tries. */
  async #restart(): Promise<void> {
    // The first process is started by `#start`.
    if (this.#addresses === null || this.#child === null) return
    const { cluster: given = null } = this.#options
    const cluster = given && { ...given, peers: this.#addresses.peers.map(portsOf) }
    const once = { isReset: false, genesis: null, warpSlot: null }
    const same = { ...portsOf(this.#addresses), cluster, shreds: this.#shreds }
    const options: DevnodeOptions = { ...this.#options, ...same, ...once }
    const { log } = this.#deps
    try {
      this.#addresses = await this.#child.call<DevnodeAddresses>('start', options, startMsMax)
      log.info('devnode restarted from its journal')
    } catch (error) {
      log.error('devnode did not restart', { reason: String(error) })
      this.#child.kill()
    }
  }

  #receive(event: string, data: unknown): void {
    // Reason for the casts: both ends are ours, see workers/devnode.ts.
    if (event === 'log') {
      const { level, msg, fields } = data as LogLine
      this.#deps.log[level](msg, fields)
    } else this.#count(data as DevnodeStats)
  }

  #count(stats: DevnodeStats): void {
    this.#stats = stats
    const { transactions, snapshotSeconds } = this.#meters
    transactions.landed.inc(stats.transactions.landed)
    transactions.failed.inc(stats.transactions.failed)
    transactions.rejected.inc(stats.transactions.rejected)
    for (const seconds of stats.snapshotSeconds) snapshotSeconds.observe(seconds)
  }
}

function portsOf({ rpc, ws, grpc }: NodeAddresses): NodePorts {
  return { rpcPort: rpc.port, wsPort: ws.port, grpcPort: grpc.port }
}
