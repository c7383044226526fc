// Proxies the JSON-RPC calls of customers to nodes, each to its own set only.
import type { Answer } from '../../base/jsonrpc/build.ts'
import type { Call } from '../../base/jsonrpc/parse.ts'
import { defaultSet } from '../config.ts'
import type { Upstreams } from '../node-pool/upstreams.ts'
import { unhealthy } from './send.ts'
import { SetProxy, type SetProxyDeps } from './set-proxy.ts'

export interface ProxyCaller {
  readonly subscription: { readonly id: string; readonly upstream: string | null }
}

export interface RpcProxyDeps extends SetProxyDeps {
  readonly upstreams: Upstreams
}

export class RpcProxy {
  readonly #sets: ReadonlyMap<string, SetProxy>

  constructor(deps: RpcProxyDeps) {
    this.#sets = new Map(
      deps.upstreams.sets().map((set) => [set.name, new SetProxy(set, deps)] as const),
    )
    deps.tally.cacheBytes = () => {
      let bytes = 0
      for (const set of this.#sets.values()) bytes += set.cache.bytes
      return bytes
    }
  }

  call(call: Call, { subscription }: ProxyCaller): Answer | Promise<Answer> {
    const set = this.#sets.get(subscription.upstream ?? defaultSet)
    return set === undefined ? unhealthy : set.call(call, subscription.id)
  }

  /** The state of the set `default` in a validator's words for GET /health. */
  health(): 'ok' | 'behind' | 'unknown' {
    const set = this.#sets.get(defaultSet)?.set
    if (set?.isServing() === true) return 'ok'
    return set?.nodes.some(({ state }) => state === 'lagging') === true ? 'behind' : 'unknown'
  }
}
