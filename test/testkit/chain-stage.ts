// An embedded chain in a folder of its own, for tests: short slots, no traffic unless asked for.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { systemClock } from '../../src/base/clock.ts'
import type { Commitment } from '../../src/base/commitment.ts'
import type { Outcome } from '../../src/base/errors.ts'
import { silentLog } from '../../src/base/telemetry/log.ts'
import type { SolanaUpdate } from '../../src/chain/solana/updates.ts'
import type { LocalChain } from '../../src/devnode/chain.ts'
import type { ChainSection } from '../../src/devnode/config.ts'
import { solanaFeed } from '../../src/devnode/node.ts'
import { StatsCounter } from '../../src/devnode/reports.ts'
import { type RunningChain, startEmbeddedChain } from '../../src/devnode/start.ts'
import { openSolanaHub, publishUpdate, type SolanaHub } from '../../src/streams/geyser/hub.ts'
import { until } from './until.ts'

export const quickSection: ChainSection = {
  source: 'embedded',
  agave: '4.3',
  traffic: 0,
  slotMs: Number(process.env.SLUICE_TEST_SLOT_MS ?? 40),
  slotsPerEpoch: 432_000,
  historySlots: 2_000,
  historyBytes: 64 * 1024 * 1024,
  snapshotSlots: 1_500,
  airdropLamports: 1_000_000_000_000,
}

export class ChainStage {
  readonly folder: string
  readonly section: ChainSection
  hub: SolanaHub
  /** Every update published as processed, in order. */
  readonly told: SolanaUpdate[] = []
  #running: RunningChain | null = null

  /** Slots that the hub keeps. */
  readonly #replaySlots: number

  constructor(section: Partial<ChainSection> = {}, replaySlots = 150) {
    this.#replaySlots = replaySlots
    this.hub = this.#newHub()
    this.folder = mkdtempSync(join(tmpdir(), 'sluice-chain-'))
    this.section = { ...quickSection, ...section }
  }

  get chain(): LocalChain {
    return this.#running!.chain
  }

  async start(isFresh = false): Promise<void> {
    this.hub = this.#newHub()
    this.hub.listen((commitment, update) => {
      if (commitment === 0) this.told.push(update)
    })
    this.#running = await startEmbeddedChain(this.section, {
      path: join(this.folder, 'chain'),
      isFresh,
      release: '0.2.0',
      sink: solanaFeed((update) => publishUpdate(this.hub, update), systemClock),
      counters: new StatsCounter(),
      clock: systemClock,
      log: silentLog,
    })
    this.#running.startTraffic()
  }

  #newHub(): SolanaHub {
    const replayBytesMax = this.#replaySlots > 150 ? 1 << 30 : 64 << 20
    return openSolanaHub({ replaySlots: this.#replaySlots, replayBytesMax })
  }

  async stop(): Promise<void> {
    await this.#running?.stop()
    this.#running = null
  }

  async dispose(): Promise<void> {
    await this.stop()
    rmSync(this.folder, { recursive: true, force: true })
  }

  /** Waits until the slot has reached the commitment. */
  reached(slot: number, commitment: Commitment): Promise<void> {
    return until(() => this.chain.ledger.slot(commitment) >= slot, `slot ${slot}`)
  }
}

/** The value of an outcome that must be good. */
export function good<T>(outcome: Outcome<T>): T {
  if (!outcome.ok) throw new Error(JSON.stringify(outcome.refusal))
  return outcome.value
}
