// Answers the JSON-RPC of customers whose nodes stand elsewhere, each from its own set alone.
// Thread: main. Handed to the rpc door by the topology.
import type { Clock } from '../../base/clock.ts'
import type { Answer } from '../../jsonrpc/build.ts'
import type { Elsewhere } from '../../jsonrpc/methods.ts'
import type { Call } from '../../jsonrpc/parse.ts'
import type { Upstreams } from '../upstreams.ts'
import { unhealthy } from './errors.ts'
import type { ProxyTally } from './meters.ts'
import { ProxySet } from './proxy-set.ts'

export interface ProxyCaller {
  readonly subscription: { readonly id: string; readonly upstream: string | null }
}

export interface RpcProxyDeps {
  readonly upstreams: Upstreams
  /** The set of everybody who is bound to none; null when those are on another chain. */
  readonly everybody: string | null
  readonly tally: ProxyTally
  /** Our version, told beside the node's. */
  readonly version: string
  readonly clock: Clock
}

export class RpcProxy implements Elsewhere<ProxyCaller> {
  readonly #sets: ReadonlyMap<string, ProxySet>
  readonly #everybody: string | null

  constructor(deps: RpcProxyDeps) {
    this.#everybody = deps.everybody
    this.#sets = new Map(
      deps.upstreams.sets().map((set) => [set.name, new ProxySet(set, deps)] as const),
    )
    deps.tally.cacheBytes = () => {
      let bytes = 0
      for (const set of this.#sets.values()) bytes += set.cache.bytes
      return bytes
    }
  }

  /** True for whoever has a set, also when that set is gone: nobody is led to other nodes. */
  takes({ subscription }: ProxyCaller): boolean {
    return subscription.upstream !== null || this.#everybody !== null
  }

  call(call: Call, { subscription }: ProxyCaller): Answer | Promise<Answer> {
    const set = this.#sets.get(subscription.upstream ?? this.#everybody ?? '')
    return set === undefined ? unhealthy : set.call(call, subscription.id)
  }

  stop(): void {
    for (const set of this.#sets.values()) set.stop()
  }
}
