// Admits every call and subscription: a local node has no plans. Thread: main of the devnode.
import type { Message } from '../base/jsonrpc/build.ts'
import { Methods, type MethodTable } from '../base/jsonrpc/methods.ts'
import { parseRequest } from '../base/jsonrpc/parse.ts'
import { answerCalls, responseMessage, unlimitedCalls } from '../base/jsonrpc/serve.ts'
import { faultReport, type Log } from '../base/telemetry/log.ts'
import type { Customer } from '../streams/pubsub/session.ts'

const batchItemsMax = 10_000

export class UnlimitedMethods<C> {
  readonly #methods: Methods<C>
  readonly #end: string
  readonly #reportBug: (error: unknown) => void

  /** `end` follows every response. */
  constructor({ methods, log }: { methods: MethodTable<C>; log: Log }, end = '') {
    this.#methods = new Methods(methods)
    this.#end = end
    this.#reportBug = faultReport(log, 'method failed')
  }

  /** The response, '' for none. Never throws and never rejects. */
  serve(body: Buffer, caller: C): Message | Promise<Message> {
    const request = parseRequest(body, batchItemsMax)
    return answerCalls(request, {
      answer: (call) => this.#methods.call(call, caller),
      failed: this.#reportBug,
      budget: unlimitedCalls,
      respond: (answers) => responseMessage(request, answers, this.#end),
    })
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
