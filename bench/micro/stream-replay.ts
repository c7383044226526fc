// How fast a gRPC stream is replayed from files of the stream log while the chain goes on, and how
// late the updates of a live stream are beside it, and without it.
// Thread: main of the bench process; the log writes in a thread of its own.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { systemClock } from '../../src/base/clock.ts'
import { Commitment } from '../../src/base/commitment.ts'
import { silentLog } from '../../src/base/telemetry/log.ts'
import type { GeyserBatch } from '../../src/chain/solana/geyser-batch.ts'
import type { SolanaUpdate } from '../../src/chain/solana/updates.ts'
import { slotStatus } from '../../src/chain/solana/updates.ts'
import { Latencies } from '../../src/loadtest/latencies.ts'
import { SolanaUpstream } from '../../src/streams/flows/solana-upstream.ts'
import { loadCodec, type SubscribeRequest } from '../../src/streams/geyser/codec.ts'
import { compileFilters } from '../../src/streams/geyser/filter-compile.ts'
import { SlabPool } from '../../src/streams/geyser/frame.ts'
import { openSolanaHub } from '../../src/streams/geyser/hub.ts'
import { Replayer } from '../../src/streams/geyser/replayer.ts'
import { SharedTurns } from '../../src/streams/hub/replay-turns.ts'
import { StreamLog, startWriterThread } from '../../src/streams/segments/stream-log.ts'
import { limits } from '../../test/testkit/filter-limits.ts'
import { batchFrom, messageOf } from '../../test/testkit/geyser-messages.ts'
import { SyntheticSolana } from '../../test/testkit/synthetic-solana.ts'
import { type Bench, type Contender, latencyUsOf, type RoundContext } from '../lib/bench.ts'
import { Shared } from '../lib/shared.ts'

const slotMs = 400
const updatesPerBatch = 40
const slotsKept = 150
const memorySlots = 4
const alone = 'live alone'
const replayed = 'replay beside it'

export const bench: Bench = {
  name: 'stream-replay',
  question: 'How many slots a second are replayed from files, and how late is a live stream then?',
  cores: 2,
  seconds: 10,
  baseline: contender(alone, false),
  candidates: [contender(replayed, true)],
  goals: [
    { contender: replayed, to: alone, figure: 'opsPerSecond', atLeast: 10 },
    { contender: replayed, to: alone, figure: 'p99', atMost: 1.2 },
  ],
  verify: ({ opsPerSecond, evidence }) =>
    opsPerSecond > 0 && evidence?.isUp === true ? undefined : 'nothing was replayed',
}

const shared = new Shared(async ({ smoke }: RoundContext) => {
  const folder = mkdtempSync(join(tmpdir(), 'bench-stream-replay-'))
  const bounds = { keepMs: 3_600_000, bytesMax: 1e9, compress: 'none' as const }
  const own = { folder, bounds, log: silentLog }
  const memory = { replaySlots: memorySlots, replayBytesMax: 1e9 }
  const hub = openSolanaHub(memory, undefined, new SharedTurns(systemClock))
  const log = new StreamLog(hub, {
    ...own,
    startThread: (events) => startWriterThread({ ...own, clock: systemClock }, events),
  })
  await log.ready
  const sink = new SolanaUpstream(hub, { log: silentLog })
  sink.opened(null)
  const chain = new SyntheticSolana({
    ...{ transactionsPerSlot: 250, accounts: 500, dataBytes: 400 },
    ...{ confirmedAfter: 2, finalizedAfter: 32 },
  })
  for (let slot = 1; slot <= (smoke ? 40 : slotsKept); slot++) {
    for (const batch of nextSlot(chain)) sink.batch(batch)
    while (log.counts().writtenEras < slot - 2) await sleep(1)
  }
  const stop = async () => {
    await log.stop()
    rmSync(folder, { recursive: true })
  }
  return { log, sink, chain, stop }
})

type Stage = Awaited<ReturnType<typeof shared.get>>

function contender(name: string, isReplayed: boolean): Contender {
  return {
    name,
    async run(context) {
      const stage = await shared.get(context)
      const before = stage.log.hub.newestSlot!
      const replay = isReplayed ? new EndlessReplay(stage.log) : null
      const startMs = performance.now()
      const latencyUs = latencyUsOf(await feedLive(stage, context.seconds))
      replay?.stop()
      const seconds = (performance.now() - startMs) / 1_000
      const slots = replay?.slots ?? stage.log.hub.newestSlot! - before
      return {
        ...{ opsPerSecond: slots / seconds, latencyUs },
        ...(replay !== null && { bytesPerOp: replay.bytes / Math.max(1, slots) }),
        evidence: { isUp: stage.log.counts().isUp },
      }
    },
    close: () => shared.stop(),
  }
}

function nextSlot(chain: SyntheticSolana): GeyserBatch[] {
  const messages = chain
    .next()
    .filter(({ kind }) => kind !== 'block')
    .map((update) => messageOf(update))
  const batches: GeyserBatch[] = []
  while (messages.length > 0) batches.push(batchFrom(messages.splice(0, updatesPerBatch)))
  return batches
}

/** How late each batch reaches a listener of the hub, against the pace of the chain. */
async function feedLive({ sink, chain }: Stage, seconds: number): Promise<Latencies> {
  const delays = new Latencies()
  // Made before: their making is no part of what is measured.
  const slots = Array.from({ length: Math.ceil((seconds * 1_000) / slotMs) }, () => nextSlot(chain))
  const startMs = performance.now()
  for (const [slot, batches] of slots.entries())
    for (const [at, batch] of batches.entries()) {
      const dueMs = startMs + slotMs * (slot + at / batches.length)
      while (performance.now() < dueMs) await sleep(Math.max(0, dueMs - performance.now()))
      sink.batch(batch)
      delays.record(performance.now() - dueMs)
    }
  return delays
}

const codec = loadCodec()
const everything = codec.root.lookupType('geyser.SubscribeRequest').encode({
  ...{ accounts: { a: {} }, slots: { s: {} }, transactions: { t: {} }, blocksMeta: { m: {} } },
  commitment: Commitment.confirmed,
})

/** One reader that begins again at the oldest slot whenever it reaches the live stream. */
class EndlessReplay {
  readonly #log: StreamLog
  #replayer: Replayer
  slots = 0
  bytes = 0

  constructor(log: StreamLog) {
    this.#log = log
    this.#replayer = this.#open()
  }

  stop(): void {
    this.#replayer.stop()
  }

  #open(): Replayer {
    const commitment = Commitment.confirmed
    const fromSlot = this.#log.oldestSlot! + 1
    const replay = this.#log.replay({ commitment, fromSlot, wantsBlocks: false, usesAtOnce: true })!
    const next = replay.next.bind(replay)
    replay.next = () => {
      const update = next()
      if (update !== null && update !== 'loading') this.#count(update)
      return update
    }
    const request = codec.decode<SubscribeRequest>('geyser.SubscribeRequest', everything.finish())
    const filters = compileFilters(request!, limits)
    if (!filters.ok) throw new Error(filters.refusal.message)
    return new Replayer(
      replay,
      filters.value,
      { pool: new SlabPool(), hub: this.#log.hub },
      {
        ...{ encoding: null, backlogBytes: 0, aheadMax: 1, isAhead: false },
        take: (runs, bytes) => {
          this.bytes += bytes
          for (const { slab } of runs) slab?.release()
        },
        caughtUp: () => {
          this.#replayer = this.#open()
        },
        lostReplay: () => {
          throw new Error('the replay was lost')
        },
      },
    )
  }

  #count(update: SolanaUpdate): void {
    if (update.kind === 'slot' && update.status === slotStatus.confirmed) this.slots++
  }
}
