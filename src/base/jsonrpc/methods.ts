// Looks up the JSON-RPC methods of an endpoint by name.
import { type Answer, failure, rpcErrors } from './build.ts'
import type { Call } from './parse.ts'

/** Answers one call of a caller of type C, at once or later. */
export type Method<C> = (call: Call, caller: C) => Answer | Promise<Answer>

export type MethodTable<C> = Readonly<Record<string, Method<C>>>

export class Methods<C> {
  readonly #byName: ReadonlyMap<string, Method<C>>

  /** When several tables name a method, the last one applies. */
  constructor(...tables: readonly MethodTable<C>[]) {
    this.#byName = new Map(tables.flatMap((table) => Object.entries(table)))
  }

  call(call: Call, caller: C): Answer | Promise<Answer> {
    const method = this.#byName.get(call.method)
    return method === undefined ? failure(rpcErrors.unknownMethod) : method(call, caller)
  }
}
