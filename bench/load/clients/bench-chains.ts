// The chains of a set with one node on loopback, as the topology opens them. Thread: main.
import { systemClock } from '../../../src/base/clock.ts'
import { silentLog } from '../../../src/base/telemetry/log.ts'
import { SetChains } from '../../../src/operator/topology/set-chains.ts'
import { singleNodeSet } from '../../../src/upstream/config.ts'
import { Upstreams } from '../../../src/upstream/node-pool/upstreams.ts'

export function openSetChains(nodePort: number): SetChains {
  const node = { grpc: `http://127.0.0.1:${nodePort}` }
  const set = { ...singleNodeSet(node), timeoutMs: 1_000, cacheBytes: 0 }
  const deps = { clock: systemClock, log: silentLog }
  return new SetChains(new Upstreams({ default: set }, deps), deps)
}
