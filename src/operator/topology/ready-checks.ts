// Lists what GET /ready checks: that the sources of the enabled products deliver.
import type { ReadyCheck } from '../../base/readiness.ts'
import { type Config, enabledEndpoints } from '../config/config.ts'
import type { Components } from './components.ts'
import { setOf } from './upstream.ts'

/** As the endpoint's own limit, after which it closes. */
const eventAgeMsMax = 30_000

export function readyChecks(config: Config, components: Components): (() => ReadyCheck)[] {
  const open = new Set(enabledEndpoints(config).map(({ name }) => name))
  const { proxy, chains, execution, cluster, sharedRegistry, sharedEvents } = components
  const { gateways } = components
  const checks: (() => ReadyCheck)[] = []
  if (gateways !== null) checks.push(() => ({ name: 'gateways', ok: gateways.isServing() }))
  if (open.has('rpc')) checks.push(() => ({ name: 'rpc nodes', ok: proxy.health() === 'ok' }))
  const chain = chains.of(setOf({ upstream: null }))
  if (chain !== null && (open.has('websocket') || open.has('grpc')))
    checks.push(() => ({ name: 'solana stream', ok: chain.isUp() }))
  if (open.has('metrics'))
    checks.push(() => {
      const ageMs = execution!.lastEventAgeMs()
      return { name: 'events', ok: ageMs < eventAgeMsMax, age_ms: Math.round(ageMs) }
    })
  const { staleMs } = config.cluster
  if (cluster !== null) checks.push(() => aged('cluster', cluster.ageMs(), staleMs))
  if (sharedRegistry !== null)
    checks.push(() => aged('registry', sharedRegistry.follower.ageMs(), staleMs))
  if (sharedEvents !== null) checks.push(() => aged('event log', sharedEvents.ageMs(), staleMs))
  return checks
}

function aged(name: string, ageMs: number, ageMsMax: number): ReadyCheck {
  return { name, ok: ageMs <= ageMsMax, age_ms: Math.round(ageMs) }
}
