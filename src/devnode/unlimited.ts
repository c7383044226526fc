// Admits every call and subscription: a local node has no plans. Thread: main of the devnode.
import type { Clock } from '../base/clock.ts'
import type { Answer } from '../jsonrpc/build.ts'
import { Methods, type MethodTable } from '../jsonrpc/methods.ts'
import type { Call } from '../jsonrpc/parse.ts'
import type { Allowance, Host } from '../jsonrpc/serve.ts'
import type { Customer } from '../pubsub/session.ts'
import { type Log, LogThrottle } from '../telemetry/log.ts'

export interface HostDeps<C> {
  readonly methods: MethodTable<C>
  readonly clock: Clock
  readonly log: Log
}

const batchItemsMax = 10_000
const admitted: Allowance = { ok: true, reason: 'ok', retryAfterMs: 0 }

export class UnlimitedHost<C> implements Host<C, Allowance> {
  readonly messageEnd: string
  readonly #methods: Methods<C>
  readonly #deps: HostDeps<C>
  readonly #throttle = new LogThrottle()

  /** `messageEnd` follows every answer. */
  constructor(deps: HostDeps<C>, messageEnd: string) {
    this.#methods = new Methods(deps.methods)
    this.#deps = deps
    this.messageEnd = messageEnd
  }

  batchItemsMax(): number {
    return batchItemsMax
  }

  spend(): Allowance {
    return admitted
  }

  enter(): boolean {
    return true
  }

  leave(): void {}

  /** web3.js and kit send this notification every few seconds to keep a connection open. */
  ignores({ method, id }: Call): boolean {
    return method === 'ping' && id === null
  }

  call(call: Call, caller: C): Answer | Promise<Answer> {
    return this.#methods.call(call, caller)
  }

  failed(method: string, error: unknown): void {
    if (this.#throttle.allows('method', this.#deps.clock.monotonicMs()))
      this.#deps.log.error('method failed', { method, reason: String(error) })
  }
}

/** Pays for any number of subscriptions and notifications. */
export const unlimitedCustomer: Customer = {
  plan: {
    subscriptionsPerConnection: Number.MAX_SAFE_INTEGER,
    distinctSubscriptions: Number.MAX_SAFE_INTEGER,
  },
  enter: () => true,
  leave() {},
  meter() {},
  chargeNotification: () => true,
  notificationWaitMs: () => 0,
}
