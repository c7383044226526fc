// Memory of reads of the log is used again only for a reader that passes everything on at once, and
// nothing that such a reader passed on changes afterwards.
import { expect, it } from 'vitest'
import { Commitment } from '../../../../src/base/commitment.ts'
import {
  accountUpdate,
  ReceivedBatch,
  slotUpdate,
} from '../../../../src/chain/solana/received-batch.ts'
import type { SolanaUpdate } from '../../../../src/chain/solana/updates.ts'
import { loadCodec, type SubscribeRequest } from '../../../../src/streams/geyser/codec.ts'
import { compileFilters } from '../../../../src/streams/geyser/filter-compile.ts'
import { SlabPool } from '../../../../src/streams/geyser/frame.ts'
import { openSolanaHub, publishUpdate } from '../../../../src/streams/geyser/hub.ts'
import { Replayer } from '../../../../src/streams/geyser/replayer.ts'
import type { ReplaySource } from '../../../../src/streams/hub/hub.ts'
import {
  type KeptEras,
  KeptReplay,
  type ReadableEra,
} from '../../../../src/streams/segments/kept-replay.ts'
import { limits } from '../../../testkit/filter-limits.ts'
import { batchFrom, messageOf } from '../../../testkit/geyser-messages.ts'

const reads = 96
const perBatch = 4
const commitment = Commitment.processed
const last = slotUpdate({ slot: 2, createdAtMs: 0 }, { parent: 1, status: commitment })

/** Some are copied into frames, some are too long for that in a live stream. */
const updates = Array.from({ length: reads * perBatch }, (_, at) => {
  const key = new Uint8Array(32).fill(at)
  const data = new Uint8Array(at % 2 === 0 ? 50_000 : 10_000).fill(at % 251)
  return accountUpdate(
    { slot: 1, createdAtMs: 0 },
    {
      ...{ pubkey: key, owner: key, txnSignature: null, data, executable: false },
      ...{ lamports: 1n, rentEpoch: 0n, writeVersion: BigInt(at) },
    },
  )
})
const batches = Array.from({ length: reads }, (_, at) =>
  batchFrom(updates.slice(at * perBatch, (at + 1) * perBatch).map((one) => messageOf(one))),
)

/** One era of the batches in files, and the next in memory. */
function eras(given: Buffer[]): KeptEras {
  const hub = openSolanaHub()
  publishUpdate(hub, last)
  const list = batches.map((_, batch) => ({
    ...{ kind: 'run', era: 1, batch, start: 0, end: perBatch, slots: [1] },
  })) as ReturnType<ReadableEra['list']>
  const era: ReadableEra = { run: 1, slot: 1, below: 3, list: () => list }
  return {
    hub,
    find: (at) => (at.era === 1 ? Promise.resolve(era) : { run: 1, era: 2, count: 0 }),
    batches: async (_run, _era, at, memory) => {
      await new Promise((resolve) => setImmediate(resolve))
      const { bytes, ...batch } = batches[at]!
      const taken = memory(bytes.length).subarray(0, bytes.length)
      given.push(taken)
      taken.set(bytes)
      return [new ReceivedBatch({ ...batch, bytes: taken })]
    },
  }
}

function fromFiles(usesAtOnce: boolean, given: Buffer[]): KeptReplay {
  const start = { run: 1, era: 1, count: 0 }
  return new KeptReplay(eras(given), start, {
    ...{ commitment, fromSlot: 1, wantsBlocks: false, usesAtOnce },
  })
}

function fromMemory(): ReplaySource<SolanaUpdate> {
  const hub = openSolanaHub()
  for (const update of [...updates, last]) publishUpdate(hub, update)
  return hub.replay(commitment, 1)!
}

/** All frames, as they are after the last one was made. */
async function framesOf(replay: ReplaySource<SolanaUpdate>): Promise<Buffer> {
  const codec = loadCodec()
  const type = codec.root.lookupType('geyser.SubscribeRequest')
  const asked = type.encode({ accounts: { a: {} }, slots: { s: {} }, commitment }).finish()
  const request = codec.decode<SubscribeRequest>('geyser.SubscribeRequest', asked)!
  const filters = compileFilters(request, limits)
  if (!filters.ok) throw new Error(filters.refusal.message)
  const sent: Buffer[] = []
  const { value } = filters
  await new Promise<void>((caughtUp, reject) => {
    const means = { pool: new SlabPool(), hub: openSolanaHub() }
    new Replayer(replay, value, means, {
      ...{ encoding: null, backlogBytes: 0, aheadMax: 1, isAhead: false, caughtUp },
      // Held as a socket holds them that is not read from.
      take: (runs) => void sent.push(...runs.map(({ bytes }) => bytes)),
      lostReplay: () => reject(new Error('lost')),
    })
  })
  return Buffer.concat(sent)
}

it('is used again, and no frame changes with it', async () => {
  const given: Buffer[] = []
  const frames = await framesOf(fromFiles(true, given))
  expect(frames.equals(await framesOf(fromMemory()))).toBe(true)
  expect(given).toHaveLength(reads)
  expect(new Set(given.map(({ buffer }) => buffer)).size).toBeLessThan(reads / 2)
})

it('is not used again for a reader that may hold what it has read', async () => {
  const given: Buffer[] = []
  const replay = fromFiles(false, given)
  const held: SolanaUpdate[] = []
  for (let update = replay.next(); update !== null; update = replay.next())
    if (update !== 'loading') held.push(update)
    else
      await new Promise<void>((resolve) => {
        replay.onLoaded = resolve
      })
  const bodies = (all: readonly SolanaUpdate[]) =>
    all.map((one) => (one.kind === 'account' ? Buffer.from(one.body).toString('base64') : ''))
  expect(bodies(held)).toEqual(bodies([...updates, last]))
  expect(new Set(given.map(({ buffer }) => buffer)).size).toBe(reads)
})
