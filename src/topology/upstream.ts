// What stands behind the bundle where it is not our own chain: sets of nodes. Thread: main.
// Called by topology.ts, after the ground. Without configured sets all of it is there and empty.
//
//   probes ─► nodes ─► proxy ─► rpc
//               └────► senders ─► tpu
import type { Components } from '../base/components.ts'
import type { Config } from '../config/config.ts'
import { defaultSet } from '../upstream/config.ts'
import { declareUpstreamMeters } from '../upstream/node-pool/meters.ts'
import { Upstreams } from '../upstream/node-pool/upstreams.ts'
import { declareProxyMeters } from '../upstream/proxy/meters.ts'
import { RpcProxy } from '../upstream/proxy/rpc-proxy.ts'
import type { Ground, TopologyDeps } from './ground.ts'

/** Who is served: all that the choice of a set depends on. */
export interface Served {
  readonly upstream: string | null
}

export async function startUpstream(
  config: Config,
  { clock, log, version }: TopologyDeps,
  parts: Components,
  { meters }: Ground,
) {
  const nodes = await parts.add('upstreams', async () => {
    const made = new Upstreams(config.upstreams, { clock, log })
    await made.start()
    return made
  })
  declareUpstreamMeters(meters, nodes)
  const everybody = config.chain.source === 'upstream' ? defaultSet : null
  const tally = declareProxyMeters(meters)
  const proxy = new RpcProxy({ upstreams: nodes, everybody, tally, version, clock })
  return {
    nodes,
    proxy,
    /** A row per node, for `sluice status`. */
    report: () => nodes.report(),
    /** The set that serves a subscription, and no other ever does; null is our own chain. */
    setOf: ({ upstream }: Served): string | null => upstream ?? everybody,
  }
}
export type Upstream = Awaited<ReturnType<typeof startUpstream>>
