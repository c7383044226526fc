// Starts the sets of nodes behind the bundle. Thread: main.
//
//   probes ─► nodes ─► proxy ─► rpc
//               └────► senders ─► tpu
import type { Components } from '../base/components.ts'
import type { Config } from '../config/config.ts'
import type { DevnodeProcess } from '../devnode/process.ts'
import { defaultSet, singleNodeSet, type UpstreamsSection } from '../upstream/config.ts'
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
  { meters, devnode }: Ground & { readonly devnode: DevnodeProcess | null },
) {
  const nodes = await parts.add('upstreams', async () => {
    const made = new Upstreams(setsOf(config.upstreams, devnode), { clock, log })
    await made.start()
    return made
  })
  declareUpstreamMeters(meters, nodes)
  const tally = declareProxyMeters(meters)
  const proxy = new RpcProxy({ upstreams: nodes, tally, version, clock })
  return {
    nodes,
    proxy,
    /** A row per node, for `sluice status`. */
    report: () => nodes.report(),
    /** The set that serves a subscription, and no other ever does. */
    setOf: ({ upstream }: Served): string => upstream ?? defaultSet,
  }
}
export type Upstream = Awaited<ReturnType<typeof startUpstream>>

/** The configured sets; the devnode is a node like any other, alone in the set `default`. */
function setsOf(configured: UpstreamsSection, devnode: DevnodeProcess | null): UpstreamsSection {
  if (devnode === null) return configured
  const { rpc, ws, grpc } = devnode.addresses
  const node = {
    rpc: `http://${rpc.host}:${rpc.port}`,
    ws: `ws://${ws.host}:${ws.port}`,
    grpc: `http://${grpc.host}:${grpc.port}`,
  }
  return { ...configured, [defaultSet]: singleNodeSet(node) }
}
