// Sets of nodes and product meters that a test sets by hand, for GET /v1/solana and its page.
import { Meters } from '../../src/base/telemetry/meters.ts'
import type { SolanaSet, SolanaView } from '../../src/products/metrics/solana.ts'
import { declareRpcMeters } from '../../src/products/rpc/meters.ts'
import { declareTpuMeters } from '../../src/products/tpu/meters.ts'
import { declareWebsocketMeters } from '../../src/products/websocket/meters.ts'
import type { BlockFigures } from '../../src/streams/geyser/hub.ts'
import { declareGrpcMeters } from '../../src/streams/geyser/meters.ts'

type Nodes = SolanaSet['nodes']

export const someNodes: Nodes = [
  {
    name: 'default/0',
    region: 'fra',
    state: 'up',
    slot: 1060,
    lagSlots: 0,
    firstShare: 0.643,
  },
  {
    name: 'default/1',
    region: 'ams',
    state: 'lagging',
    slot: 1001,
    lagSlots: 59,
    firstShare: 0.357,
  },
  { name: 'default/2', region: '', state: 'down', slot: null, lagSlots: null, firstShare: null },
]

export class HandSolana implements SolanaView {
  readonly blocks: BlockFigures[] = []
  name = 'default'
  nodes: Nodes = someNodes
  others: SolanaSet[] = []
  isUp = true
  slotMs = 400
  ageMs: number | null = 120
  hasStream = true
  hasSets = true

  constructor(blocks = 60) {
    for (let count = 0; count < blocks; count++) this.add()
  }

  get newest(): number {
    return this.blocks.at(-1)?.slot ?? 1000
  }

  /** One more block; each eleventh slot is skipped. */
  add(): void {
    const slot = this.newest + (this.newest % 11 === 0 ? 2 : 1)
    const content = {
      votes: 600,
      failed: slot % 40,
      feeLamports: 21_000_000 + slot * 10,
      feeMedian: 5_000 + (slot % 7) * 100,
      costUnits: 20_000_000 + (slot % 13) * 1_500_000,
    }
    this.blocks.push({ slot, transactions: 1_000 + (slot % 50), content })
    if (this.blocks.length > 64) this.blocks.shift()
  }

  sets(): SolanaSet[] {
    if (!this.hasSets) return []
    const { newest } = this
    const heads =
      this.blocks.length === 0
        ? { processed: null, confirmed: null, finalized: null }
        : { processed: newest + 2, confirmed: newest, finalized: Math.max(0, newest - 30) }
    const { isUp, slotMs, ageMs, blocks } = this
    const stream = this.hasStream ? { isUp, slotMs, ageMs, heads, blocks } : null
    return [{ name: this.name, stream, nodes: this.nodes }, ...this.others]
  }
}

/** The meters of the products, as these declare them; shreds are counted in a worker. */
export function productMeters(meters = new Meters()) {
  const shreds = { in: 0, accepted: 0, out: 0, dropped: 0, rebuilt: 0 }
  for (const [name, field] of [
    ['in', 'in'],
    ['accepted', 'accepted'],
    ['out', 'out'],
    ['rebuilt', 'rebuilt'],
  ] as const)
    meters.totalRead(`sluice_shreds_${name}_total`, 'Shreds.', () => shreds[field])
  meters.counterRead('sluice_shreds_dropped_total', 'Shreds.', { reason: ['duplicate'] }, () => [
    [{ reason: 'duplicate' }, shreds.dropped],
  ])
  meters.gaugeRead('sluice_shreds_destinations_active', 'Destinations.', () => 3)
  meters.gauge('sluice_shreds_worker_up', 'Up.').set(1)
  const websocket = declareWebsocketMeters(meters)
  const tpu = declareTpuMeters(meters)
  const forward = { inFlight: () => 4, queued: () => 1, upstreamsUp: () => 2 }
  tpu.watch(() => [forward])
  return {
    meters,
    shreds,
    websocket,
    tpu,
    rpc: declareRpcMeters(meters),
    grpc: declareGrpcMeters(meters),
  }
}

/** Work of about a second, by all products. */
export function workASecond(of: ReturnType<typeof productMeters>): void {
  for (let call = 0; call < 40; call++) of.rpc.calls.count('getSlot', call === 7 ? 'error' : 'ok')
  for (let call = 0; call < 3; call++) of.websocket.calls.count('slotSubscribe', 'ok')
  of.websocket.openSockets = () => 12
  of.websocket.subscriptions.subscriptions = () => ({ count: 34, distinct: 20 })
  of.websocket.subscriptions.notified('slot', 210)
  of.grpc.requests.count('Subscribe', 'admitted')
  of.grpc.streams.set(5)
  of.grpc.updates.transaction.inc(9_000)
  of.tpu.accepted.inc(10)
  of.tpu.rejected.count('TIP_TOO_LOW')
  of.tpu.endings.landed.inc(8)
  of.tpu.endings.expired.inc()
  for (let landing = 0; landing < 8; landing++) of.tpu.landSeconds.observe(0.7 + landing * 0.1)
  of.shreds.in += 5_000
  of.shreds.accepted += 2_600
  of.shreds.out += 7_800
  of.shreds.dropped += 2_400
  of.shreds.rebuilt += 12
}
