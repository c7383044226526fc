// The indexer: rows of everything that passes, and the door where they are asked for. Thread: main.
// Called by topology.ts after the other doors, whose roads it reads.
//
//   event log, hub, tips ─► feeds ─► writer process ─► rows ◄─ query processes ◄─ indexer 8123
import { randomBytes } from 'node:crypto'
import { hostname } from 'node:os'
import { join } from 'node:path'
import type { Components } from '../base/components.ts'
import type { DoorAddress } from '../base/running.ts'
import type { Config } from '../config/config.ts'
import { startEngine } from '../products/indexer/engines.ts'
import { type RunningIngest, startIngest } from '../products/indexer/ingest.ts'
import { declareIndexerMeters, declareIngestMeters } from '../products/indexer/meters.ts'
import { startIndexer } from '../products/indexer/server.ts'
import type { RunningTpu } from '../products/tpu/server.ts'
import type { Ground, TopologyDeps } from './ground.ts'
import type { Roads } from './roads.ts'

/**
 * Holds the place of the feed among the parts: it reads the roads, so it starts after them, and
 * stops after them, too, when they have said their last.
 */
export class FeedPlace {
  #starting: Promise<RunningIngest> | null = null

  take(starting: Promise<RunningIngest>): void {
    this.#starting = starting
  }

  async stop(): Promise<void> {
    // One that did not start has told so to whoever started it.
    const feed = await this.#starting?.catch(() => null)
    await feed?.stop()
  }
}

export interface IndexerGiven extends Ground, Roads {
  readonly feedPlace: FeedPlace
  readonly doors: Record<string, DoorAddress>
  readonly tpu: RunningTpu | null
}

export async function openIndexer(
  config: Config,
  deps: TopologyDeps,
  parts: Components,
  given: IndexerGiven,
): Promise<void> {
  if (!config.indexer.enabled) return
  const { events, meters, data, tpu, feedPlace } = given
  const { clock, log } = deps
  const folder = join(data, 'index')
  const holder = `${hostname()} pid ${process.pid} run ${randomBytes(4).toString('hex')}`
  // Both wait for a process that loads an engine: side by side, the start is not longer by both.
  const feeding = startIngest(config.indexer, {
    events,
    hub: hubOf(given),
    folder,
    holder,
    meters: declareIngestMeters(meters),
    clock,
    log,
  })
  feedPlace.take(feeding)
  feeding.catch(() => {})
  const engine = await parts.add('index engine', () =>
    startEngine(config.indexer, { folder, holder, meters, log }),
  )
  const { ingest } = await parts.add('index writer', async () => ({
    ingest: await feeding,
    // At its place, after the roads.
    stop() {},
  }))
  if (tpu !== null) tpu.listen((row) => ingest.tip(row))
  const { address } = await parts.add('indexer', () =>
    startIndexer(config.indexer, {
      ...given,
      engine,
      meters: declareIndexerMeters(meters),
      usage: (fact) => ingest.usage(fact),
      freshness: () => ingest.freshness(),
      trustedProxies: config.trustedProxies,
      clock,
      log,
    }),
  )
  if (address !== null) given.doors.indexer = address
}

/** The hub of the shared set: rows of a dedicated set belong to its subscription alone. */
function hubOf({ upstream, geyser }: Roads) {
  return geyser.of(upstream.setOf({ upstream: null }))?.hub ?? null
}
