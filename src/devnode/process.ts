// The parent's side of the devnode's process: starts it, restarts it on the same ports, stops it.
// Thread: main. A native abort or kill -9 costs a restart from the journal.
import { Fault } from '../base/errors.ts'
import { SupervisedChild } from '../threads/child.ts'
import type { RestartPolicy, SupervisorDeps } from '../threads/supervisor.ts'
import type { DevnodeAddresses, DevnodeOptions } from './node.ts'

/** Back within two seconds, also after several deaths in a row. */
const backoff: RestartPolicy = { firstMs: 50, lastMs: 800, deathsMax: 40, healthyMs: 5_000 }
const startMsMax = 30_000
/** Longer than a snapshot of the ledger takes. */
const stopMsMax = 10_000

export class DevnodeProcess {
  readonly #child: SupervisedChild
  #addresses: DevnodeAddresses

  private constructor(child: SupervisedChild, addresses: DevnodeAddresses) {
    this.#child = child
    this.#addresses = addresses
  }

  /** Resolves when every endpoint of the node is open. */
  static async start(options: DevnodeOptions, deps: SupervisorDeps): Promise<DevnodeProcess> {
    let running: DevnodeProcess | null = null
    const child = await SupervisedChild.start(
      {
        name: 'devnode',
        entry: 'devnode',
        backoff,
        stopMsMax,
        onStart: () => void running?.restart(options, deps),
      },
      deps,
    )
    try {
      const addresses = await child.call<DevnodeAddresses>('start', options, startMsMax)
      running = new DevnodeProcess(child, addresses)
      return running
    } catch (error) {
      await child.stop()
      throw error instanceof Fault ? new Fault('devnode-start', error.message) : error
    }
  }

  get addresses(): DevnodeAddresses {
    return this.#addresses
  }

  /** Of the current process; 0 while there is none. */
  get pid(): number {
    return this.#child.pid
  }

  get restarts(): number {
    return this.#child.restarts
  }

  stop(): Promise<void> {
    return this.#child.stop()
  }

  /** A new process opens the same ports; one that cannot is killed, and the next one tries. */
  private async restart(options: DevnodeOptions, { log }: SupervisorDeps): Promise<void> {
    const { rpc, ws, grpc } = this.#addresses
    const ports = { rpcPort: rpc.port, wsPort: ws.port, grpcPort: grpc.port }
    const again = { ...options, ...ports, isReset: false }
    try {
      this.#addresses = await this.#child.call<DevnodeAddresses>('start', again, startMsMax)
      log.info('devnode restarted from its journal')
    } catch (error) {
      log.error('devnode did not restart', { reason: String(error) })
      this.#child.kill()
    }
  }
}
