// A consumer whose streams live for a moment only: each of them takes it further.
import { describe, expect, it } from 'vitest'
import { allCommitments } from '../../../../src/base/commitment.ts'
import { silentLog } from '../../../../src/base/telemetry/log.ts'
import { slotUpdate } from '../../../../src/chain/solana/received-batch.ts'
import {
  type SlotStatus,
  type SolanaUpdate,
  slotStatus,
} from '../../../../src/chain/solana/updates.ts'
import { SolanaUpstream } from '../../../../src/streams/flows/solana-upstream.ts'
import { loadCodec, type SubscribeRequest } from '../../../../src/streams/geyser/codec.ts'
import { compileFilters } from '../../../../src/streams/geyser/filter-compile.ts'
import { type FilterSet, withRetractions } from '../../../../src/streams/geyser/filter-set.ts'
import { SlabPool } from '../../../../src/streams/geyser/frame.ts'
import { openSolanaHub } from '../../../../src/streams/geyser/hub.ts'
import {
  type Position,
  PublishedSlots,
  Resumption,
} from '../../../../src/streams/geyser/position.ts'
import { Replayer, type ReplayingStream } from '../../../../src/streams/geyser/replayer.ts'
import type { ReplayStep } from '../../../../src/streams/hub/replay-turns.ts'
import { limits } from '../../../testkit/filter-limits.ts'
import { batchFrom, messageOf } from '../../../testkit/geyser-messages.ts'
import { apply, type Held, isItem, itemsOf } from '../../../testkit/model-client.ts'
import { chainOf, inBatches, sentBack } from '../../../testkit/replayed-updates.ts'
import { SyntheticSolana } from '../../../testkit/synthetic-solana.ts'
import { FrameReader, filtersOfAll } from '../../../testkit/void-readers.ts'

const codec = loadCodec()
const everything = { accounts: { a: {} }, slots: { s: {} }, transactions: { t: {} } }
const type = codec.root.lookupType('geyser.SubscribeRequest')

function filtersOf(commitment: number): FilterSet {
  const bytes = type.encode({ ...everything, blocksMeta: { m: {} }, commitment }).finish()
  const request = codec.decode<SubscribeRequest>('geyser.SubscribeRequest', bytes)!
  const outcome = compileFilters(request, limits)
  if (!outcome.ok) throw new Error(outcome.refusal.message)
  return outcome.value
}

function gateway() {
  const hub = openSolanaHub({ replaySlots: 1e6, replayBytesMax: 1e12 })
  const published = new PublishedSlots(hub)
  const sink = new SolanaUpstream(hub, { bankSalt: 'salt', log: silentLog })
  sink.opened(null)
  return { hub, published, sink }
}

type Gateway = ReturnType<typeof gateway>

/** A stream that ends after some turns of its replay, or when it is live. */
function live({ hub, published }: Gateway, at: Position, filters: FilterSet, turns: number) {
  const frames: Buffer[] = []
  let step: ReplayStep | null = null
  const stream: ReplayingStream = {
    ...{ encoding: null, backlogBytes: 0, aheadMax: 1, isAhead: false },
    take: (runs) => void frames.push(...runs.map(({ bytes }) => Buffer.from(bytes))),
    caughtUp: () => {
      isLive = true
    },
    lostReplay: () => expect.unreachable(),
  }
  let isLive = false
  const otherBlocks: number[] = []
  const replay = hub.replay(at.commitment, at.floor)!
  const ask = (next: ReplayStep) => {
    step = next
  }
  const { slotTime, newestSlot } = hub
  const means = { pool: new SlabPool(), hub: { slotTime, newestSlot, turns: { ask } } }
  const replayer = new Replayer(replay, filters, means, stream, {
    resumption: new Resumption(at, 'floor', filters.retractions !== null),
    published,
    otherBlock: (slot) => void otherBlocks.push(slot),
  })
  for (let turn = 0; turn < turns && step !== null; turn++) {
    const next: ReplayStep = step
    step = null
    next(() => false)
  }
  const position = sentBack(replayer.position())
  replayer.stop()
  return { bytes: Buffer.concat(frames), position, isLive, otherBlocks }
}

const send = ({ sink }: Gateway, sent: readonly SolanaUpdate[]) =>
  inBatches(sent, 3).map((batch) => sink.batch(batchFrom(batch.map((one) => messageOf(one)))))

function heldOf(...streams: readonly { readonly bytes: Buffer }[]): Held {
  const reader = new FrameReader()
  reader.take(streams.map(({ bytes }) => ({ bytes, slab: null })))
  return apply(reader)
}

it.each(allCommitments)('each stream of a consumer advances, at %i', (commitment) => {
  const chain = gateway()
  // Two turns read 512 updates; the slots above the newest finalized one have about 1,000.
  const updates = chainOf(56, { finalizedAfter: 30, transactionsPerSlot: 12 })
  const batches = inBatches(updates, 3)
  const filters = filtersOf(commitment)
  const at = () => sentBack(chain.published.position(commitment))
  let start: Position | null = null
  for (const [index, batch] of batches.entries()) {
    if (index === Math.floor(0.7 * batches.length)) start = at()
    chain.sink.batch(batchFrom(batch.map((update) => messageOf(update))))
  }
  const whole = live(chain, start!, filters, Number.POSITIVE_INFINITY)
  expect(whole.isLive).toBe(true)
  const read: Buffer[] = []
  for (let [position, isLive] = [start!, false]; !isLive; ) {
    const stream = live(chain, position, filters, 2)
    expect(stream.bytes.length).toBeGreaterThan(0)
    read.push(stream.bytes)
    ;({ position, isLive } = stream)
  }
  expect(read.length).toBeGreaterThan(1)
  expect(Buffer.concat(read).equals(whole.bytes)).toBe(true)
})

it.each([
  ['in part, which that one never had', 9, false],
  ['whole, which that one never had', 99, false],
  ['in part, which that one has, too', 9, true],
])('a fork is taken back once at the next gateway: %s', (_, count, hasFork) => {
  const chain = new SyntheticSolana({ isSkipped: (slot) => slot === 1_003 })
  const updates = Array.from({ length: 12 }, () => chain.next()).flat()
  const fork = new SyntheticSolana({ seed: 9, firstSlot: 1_003 }).next().slice(0, count)
  const before = updates.filter(({ slot }) => slot < 1_003)
  const [here, there] = [gateway(), gateway()]
  const banks = new Set<number | undefined>()
  here.hub.listen((_, update) => {
    if (update.kind === 'slot' && update.slot === 1_003) banks.add(update.bank)
  })
  send(here, [...before, ...fork])
  const at = sentBack(here.published.position(0))
  const after = updates.filter(({ slot }) => slot > 1_003)
  send(there, [...before, ...(hasFork ? fork : []), ...after])
  const stream = live(there, at, withRetractions(filtersOf(0)), Number.POSITIVE_INFINITY)
  expect(heldOf(stream).retracted).toEqual([...banks].map((bank) => `1003/${bank} fork`))
})

describe('a consumer with retractions that has a void bank from another gateway', () => {
  const slot = 1_003
  const moment = { slot, createdAtMs: 1 }
  const status = (is: SlotStatus, parent = slot - 1) => slotUpdate(moment, { parent, status: is })
  const isReplayed = (one: SolanaUpdate) =>
    one.kind !== 'slot' || one.status <= slotStatus.finalized
  const isContent = ({ kind }: SolanaUpdate) => kind !== 'slot'
  const chain = new SyntheticSolana({ transactionsPerSlot: 12 })
  const next = (slots: number) => Array.from({ length: slots }, () => chain.next()).flat()
  const [before, won, after] = [next(3), next(1), next(8)]
  const other = new SyntheticSolana({ seed: 9, firstSlot: slot }).next().filter(isContent)
  const created = (parent?: number) => status(slotStatus.createdBank, parent)

  /** What the client has read there, and where. */
  function readAt(sent: readonly SolanaUpdate[], at?: Position) {
    const one = gateway()
    send(one, sent)
    const from = at ?? { commitment: 0, floor: before[0]!.slot, slots: [], parts: [] }
    return live(one, from, withRetractions(filtersOfAll(0)), Number.POSITIVE_INFINITY)
  }
  const itemsIn = ({ slots }: Held) => slots.get(slot)?.filter(isItem).toSorted()
  const wonItems = itemsOf(won).toSorted()

  it.each([
    ['in part', other.slice(0, 9), 'handover'],
    ['whole', other, 'fork'],
  ])('has it taken back where only one of another parent is created: %s', (_, had, reason) => {
    const here = readAt([...before, created(slot - 2), ...had])
    const there = readAt([...before, ...won, ...after], here.position)
    expect(there.otherBlocks).toEqual([])
    const { retracted } = heldOf(there)
    expect(retracted).toEqual([expect.stringMatching(`^${slot}/\\d+ ${reason}$`)])
    expect(itemsIn(heldOf(here, there))).toEqual(wonItems)
  })

  it.each([
    ['is created', won],
    ['comes of a replay', won.filter(isReplayed)],
  ])('is told that the slot has another block where one of the same parent %s', (_, sent) => {
    const here = readAt([...before, created(), ...other.slice(0, 9)])
    const there = [...before, ...sent, ...after]
    expect(readAt(there, here.position).otherBlocks).toEqual([slot])
    const { slots, parts } = here.position
    const isKept = (one: { readonly slot: number }) => one.slot !== slot
    const at = { ...here.position, slots: slots.filter(isKept), parts: parts.filter(isKept) }
    expect(itemsIn(heldOf(readAt(there, at)))).toEqual(wonItems)
  })

  it('keeps what a block lacks that comes without all of its items', () => {
    const here = readAt([...before, ...won.slice(0, 12)])
    const lost = won.find(({ kind }) => kind === 'transaction')
    const there = readAt([...before, ...won.filter((one) => one !== lost), ...after], here.position)
    expect(there.otherBlocks).toEqual([])
    expect(itemsIn(heldOf(here, there))).toEqual(wonItems)
  })

  it('has it taken back where a replay without its creation brings it once more', () => {
    const had = [created(slot - 2), ...other.slice(0, 4), created(), ...won.filter(isContent)]
    const here = readAt([...before, ...had.slice(0, 9)])
    const sent = [...before, ...other.slice(0, 9), ...won.filter(isReplayed), ...after]
    const there = readAt(sent, here.position)
    expect(there.otherBlocks).toEqual([])
    expect(itemsIn(heldOf(here, there))).toEqual(itemsIn(heldOf(readAt(sent))))
  })

  it('gets nothing again of a slot that had a bank of the same parent before', () => {
    const sent = [...before, created(), ...other, ...won, ...after]
    const there = readAt(sent, readAt([...before, created(), ...other, ...won]).position)
    expect(there.otherBlocks).toEqual([])
    expect(heldOf(there).slots.get(slot)).toBeUndefined()
  })

  it('has no bank taken back twice', () => {
    const skipping = new SyntheticSolana({ isSkipped: (one) => one === slot })
    const updates = Array.from({ length: 12 }, () => skipping.next()).flat()
    const had = [created(), ...other.slice(0, 9), status(slotStatus.dead), ...other.slice(9, 12)]
    const here = readAt([...updates.filter((one) => one.slot < slot), ...had])
    const [bank] = heldOf(here).retracted
    expect(bank).toMatch(/ dead$/)
    const there = readAt(updates, here.position)
    expect(heldOf(here, there).retracted).toEqual([bank, `${slot}/0 fork`])
  })
})
