// Runs the operator API as a child process: what an operator asks for, however long it takes, then
// delays no customer. Restarted for as long as the server runs; the server works without it.
import { messageOf } from '../../base/errors.ts'
import type { EndpointAddress, Running } from '../../base/running.ts'
import { SupervisedChild } from '../../base/threads/child.ts'
import { restartForever } from '../../base/threads/supervisor.ts'
import type { Context } from './context.ts'

const openMsMax = 30_000

export class OperatorApi implements Running {
  readonly #context: Context
  #child: SupervisedChild | null = null
  #address: EndpointAddress | null = null

  private constructor(context: Context) {
    this.#context = context
  }

  /** Rejects with a `Fault` where its socket or its port cannot be opened. */
  static async start(context: Context): Promise<OperatorApi> {
    const { clock, log } = context
    const api = new OperatorApi(context)
    const options = { backoff: restartForever, onStart: () => void api.#reopen() }
    const child = await SupervisedChild.start(
      { name: 'operator api', entry: 'operator-api', ...options },
      { clock, log: log.area('operator'), onDown: () => {} },
    )
    api.#child = child
    try {
      await api.#open(child)
    } catch (error) {
      await child.stop()
      throw error
    }
    return api
  }

  /** Null without a port. */
  get address(): EndpointAddress | null {
    return this.#address
  }

  async stop(): Promise<void> {
    await this.#child?.stop()
  }

  async #open(child: SupervisedChild): Promise<void> {
    const { given, version } = this.#context
    // A new process has the port of the one before.
    const port = this.#address?.port ?? given.operator.port
    const config = { ...given, operator: { ...given.operator, port } }
    this.#address = await child.call('open', { config, version }, openMsMax)
  }

  /** After a death; the first start is awaited by its caller. */
  async #reopen(): Promise<void> {
    if (this.#child === null) return
    try {
      await this.#open(this.#child)
    } catch (error) {
      this.#context.log.warn('operator api did not start', { reason: messageOf(error) })
      this.#child.kill()
    }
  }
}
