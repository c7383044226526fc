// Streams whose items come later than usual: after the next slot has begun, after their meta, or
// after their slot was declared dead by another node.
import { describe, expect, it } from 'vitest'
import { silentLog } from '../../../../src/base/telemetry/log.ts'
import { encodeBase58 } from '../../../../src/chain/solana/base58.ts'
import {
  blockMetaUpdate,
  entryUpdate,
  slotUpdate,
} from '../../../../src/chain/solana/received-batch.ts'
import {
  type BlockMetaUpdate,
  type SolanaUpdate,
  slotStatus,
} from '../../../../src/chain/solana/updates.ts'
import type { SlotItem } from '../../../../src/streams/flows/item-names.ts'
import { SolanaUpstream } from '../../../../src/streams/flows/solana-upstream.ts'
import { lastItems } from '../../../../src/streams/flows/tracked-slot.ts'
import { openSolanaHub } from '../../../../src/streams/geyser/hub.ts'
import { UpdateList } from '../../../../src/streams/hub/update-list.ts'
import { batchFrom, messageOf } from '../../../testkit/geyser-messages.ts'
import { SyntheticSolana } from '../../../testkit/synthetic-solana.ts'

const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex').slice(0, 24)

function nameOf(update: SolanaUpdate): string {
  if (update.kind === 'transaction') return `transaction ${hex(update.signature)}`
  if (update.kind === 'entry') return `entry ${update.index}`
  if (update.kind === 'blockMeta') return `blockMeta ${update.blockhash}`
  return update.kind
}

/** With what was published of each slot, statuses apart, at each commitment. */
function open() {
  const hub = openSolanaHub({ replaySlots: 150, replayBytesMax: 1e9 })
  const sink = new SolanaUpstream(hub, { log: silentLog })
  const published = [new Map(), new Map(), new Map()] as Map<number, string[]>[]
  hub.listen((commitment, update) => {
    if (update.kind === 'slot') return
    const slots = published[commitment]!
    slots.set(update.slot, [...(slots.get(update.slot) ?? []), nameOf(update)])
  })
  const send = (updates: readonly SolanaUpdate[], stream = 0) =>
    sink.batch(batchFrom(updates.filter(isSent).map((one) => messageOf(one))), stream)
  return { hub, sink, published, send }
}

const isSent = ({ kind }: SolanaUpdate) => kind !== 'block'
const isStatus = (update: SolanaUpdate, status: number) =>
  update.kind === 'slot' && update.status === status
const slotsOf = (count: number) => {
  const chain = new SyntheticSolana({ seed: 3, finalizedAfter: 6 })
  return Array.from({ length: count }, () => chain.next())
}

/** The slot with its last transaction and what follows it behind the meta. */
function withEarlyMeta(slot: readonly SolanaUpdate[]): SolanaUpdate[] {
  const meta = slot.find(({ kind }) => kind === 'blockMeta')!
  const at = slot.findLastIndex(({ kind }) => kind === 'transaction')
  const rest = slot.slice(at).filter((one) => one !== meta)
  return [...slot.slice(0, at), meta, ...rest]
}

/** Another version of the block, of the same parent. */
function otherBlockOf(slot: readonly SolanaUpdate[]): SolanaUpdate[] {
  const hash = new Uint8Array(32).fill(9)
  return slot.map((one) => {
    if (one.kind === 'blockMeta')
      return blockMetaUpdate(one, { ...one, blockhash: encodeBase58(hash), rewards: [] })
    if (one.kind !== 'entry') return one
    const counts = { executedTransactionCount: 3, startingTransactionIndex: 0 }
    return entryUpdate(one, { index: one.index, numHashes: 1, hash, ...counts })
  })
}

function naming(update: SolanaUpdate, parentBlockhash: string): SolanaUpdate {
  if (update.kind !== 'blockMeta') return update
  return blockMetaUpdate(update, { ...update, parentBlockhash, rewards: [] })
}

describe('a slot with a replaced bank', () => {
  it('has the last items of the streams, however many', () => {
    const counts = { executedTransactionCount: 0, entriesCount: 150_000 }
    const items = new UpdateList<SlotItem>()
    const meta = { ...slotsOf(1)[0]!.find(({ kind }) => kind === 'blockMeta')!, ...counts }
    const take = (index: number) =>
      items.push({ kind: 'entry', slot: 1, createdAtMs: 1, index, body: new Uint8Array(0) })
    for (const index of [0, 1]) take(index)
    for (let index = 0; index < counts.entriesCount; index++) take(index)
    expect(lastItems(items, meta as BlockMetaUpdate)?.length).toBe(counts.entriesCount)
    take(counts.entriesCount)
    expect(lastItems(items, meta as BlockMetaUpdate)).toBeNull()
  })
})

describe('a connection without a replay', () => {
  it('leaves out every slot that it began inside of, as items of two interleave', () => {
    const slots = slotsOf(12)
    const [first, second] = [slots[0]!, slots[1]!].map((slot) => slot.filter(isSent))
    const at = second!.findIndex((one) => isStatus(one, slotStatus.createdBank))
    for (const isKnown of [true, false]) {
      const { sink, published, send } = open()
      sink.opened(null)
      const late = first!.findLast(({ kind }) => kind === 'transaction')!
      const later = slots.slice(2).flat()
      const hasIt = (one: SolanaUpdate) => isKnown || !isStatus(one, slotStatus.createdBank)
      send([late, ...second!.slice(at + 4), ...later].filter(hasIt))
      for (const content of published)
        expect([...content.keys()].filter((slot) => slot < 1_002)).toEqual([])
      expect(published[2]!.get(1_002)).toContain('block')
      expect(sink.counts().incompleteBlocks).toBe(0)
    }
  })

  it('leaves it out also where the one that was first to send some of it is gone', () => {
    const slots = slotsOf(12)
    const { sink, published, send } = open()
    for (const stream of [0, 1]) sink.opened(null, stream)
    send(slots[1]!.slice(9))
    sink.closed(0)
    sink.opened(null, 0)
    send([...slots[1]!.slice(7), ...slots.slice(2).flat()], 1)
    for (const content of published) expect([...content.keys()][0]).toBe(1_002)
    expect(published[2]!.get(1_002)).toContain('block')
    expect(sink.counts().incompleteBlocks).toBe(0)
  })

  /** Stream 0 comes back inside of 1006, whose status and the one before it confirms. */
  const openBehind = () => {
    const chain = new SyntheticSolana({ seed: 3, confirmedAfter: 1, finalizedAfter: 1 })
    const slots = Array.from({ length: 12 }, () => chain.next())
    const opened = open()
    for (const stream of [0, 1]) opened.sink.opened(null, stream)
    for (const stream of [0, 1]) opened.send(slots.slice(0, 5).flat(), stream)
    opened.sink.closed(0)
    return { ...opened, slots }
  }

  it('confirms slots before its own in their order, once one that is behind has sent them', () => {
    const { sink, published, send, slots } = openBehind()
    sink.opened(null, 0)
    const last = slots[6]!
    send([...last.slice(8), ...slots[7]!])
    // It has another bank before the one that is confirmed.
    const before = slotUpdate(last[1]!, { parent: 1_003, status: slotStatus.createdBank })
    send([...slots[5]!, before, ...last.slice(2, 9)], 1)
    send([...last, ...slots[7]!], 1)
    for (const slot of slots.slice(8)) for (const stream of [0, 1]) send(slot, stream)
    const confirmed = [1_000, 1_001, 1_002, 1_003, 1_004, 1_005, 1_006, 1_007, 1_008, 1_009, 1_010]
    for (const commitment of [1, 2]) expect([...published[commitment]!.keys()]).toEqual(confirmed)
    for (const content of published)
      for (const slot of [1_005, 1_006]) expect(content.get(slot)).toContain('block')
    expect(sink.counts().incompleteBlocks).toBe(0)
  })

  it.each([
    ['another one sends', true, true],
    ['another one sends, whose creation nobody tells', true, false],
    ['nobody sends any more, until it is confirmed', false, true],
  ])('tells that its slot was processed after the block that %s', (_, isSentBehind, isCreated) => {
    const { hub, sink, send, slots } = openBehind()
    const own = slots.map((slot) =>
      slot.filter((one) => isCreated || !isStatus(one, slotStatus.createdBank)),
    )
    const names = new Map<number, string>([
      [slotStatus.processed, 'processed'],
      [slotStatus.confirmed, 'confirmed'],
    ])
    const told: string[] = []
    hub.listen((commitment, update) => {
      const name = update.kind === 'slot' ? names.get(update.status) : update.kind
      if (commitment === 0 && update.slot === 1_006 && name !== undefined) told.push(name)
    })
    sink.opened(null, 0)
    send([...own[6]!.slice(8), ...own[7]!])
    expect(told).toEqual([])
    if (isSentBehind) send([...own[5]!, ...own[6]!, ...own[7]!], 1)
    else sink.closed(1)
    send(own[8]!)
    const content = isSentBehind ? ['block', 'blockMeta'] : []
    expect(told.slice(-2 - content.length)).toEqual([...content, 'processed', 'confirmed'])
    expect(told.filter((name) => name === 'processed')).toHaveLength(1)
  })

  it('makes no block of its slot, of which it may lack a write that nothing counts', () => {
    const { sink, published, send, slots } = openBehind()
    const own = slots[6]!.filter(isSent)
    const firstItem = own.findIndex(({ kind }) => kind !== 'slot')
    const firstTransaction = own.findIndex(({ kind }) => kind === 'transaction')
    expect(firstTransaction).toBeGreaterThan(firstItem)
    send([...slots[5]!, ...own.slice(0, firstItem)], 1)
    sink.opened(null, 0)
    send([...own.slice(firstTransaction), ...slots[7]!])
    send([...own.slice(firstItem), ...slots[7]!], 1)
    for (const stream of [0, 1]) send(slots[8]!, stream)
    const names = own.filter(({ kind }) => kind !== 'slot').map(nameOf)
    for (const content of published)
      expect(content.get(1_006)?.toSorted()).toEqual([...names, 'block'].sort())
  })

  it('confirms slots before its own that another one replays later', () => {
    const { sink, published, send, slots } = openBehind()
    sink.closed(1)
    sink.opened(null, 0)
    send([...slots[6]!.slice(8), ...slots[7]!])
    sink.opened(1_005, 1)
    for (const slot of slots.slice(5)) send(slot, 1)
    for (const commitment of [1, 2])
      for (const slot of [1_005, 1_006])
        expect(published[commitment]!.get(slot)?.toSorted()).toEqual(
          slots[slot - 1_000]!.filter(({ kind }) => kind !== 'slot')
            .map(nameOf)
            .toSorted(),
        )
  })
})

describe('a slot that is confirmed before its last items have come', () => {
  const ofSlot = (slots: SolanaUpdate[][], slot: number, kind: string) =>
    slots.flat().filter((one) => one.slot === slot && one.kind === kind)
  const expected = (slots: SolanaUpdate[][]) => {
    const plain = open()
    plain.sink.opened(null)
    plain.send(slots.flat())
    return plain.published
  }
  const sorted = (published: ReadonlyMap<number, string[]>) =>
    [...published].map(([slot, names]) => [slot, names.toSorted()]).sort()

  it.each(['transaction', 'entry', 'blockMeta'])(
    'is confirmed and finalized whole, though its last %s follows three later slots',
    (kind) => {
      const slots = slotsOf(12)
      const late = ofSlot(slots, 1_003, kind).at(-1)!
      const others = slots.map((slot) => slot.filter((one) => one !== late))
      const { sink, published, send } = open()
      sink.opened(null)
      send(others.slice(0, 7).flat())
      const confirmed = published[1]!
      expect(confirmed.get(1_003)).toBeUndefined()
      send([late])
      expect(confirmed.get(1_003)).toContain('block')
      send(others.slice(7).flat())
      for (const commitment of [1, 2])
        expect(sorted(published[commitment]!)).toEqual(sorted(expected(slots)[commitment]!))
      expect(sink.counts().incompleteBlocks).toBe(0)
    },
  )

  it('is replayed by another connection when it is cut before they come', () => {
    const slots = slotsOf(12)
    const late = new Set(ofSlot(slots, 1_003, 'transaction').slice(-2))
    const { sink, published, send } = open()
    sink.opened(null)
    send(
      slots
        .slice(0, 7)
        .flat()
        .filter((one) => !late.has(one)),
    )
    sink.closed()
    expect(sink.resumeFrom()).toBe(1_003)
    sink.opened(1_003)
    send(slots.slice(3).flat())
    for (const commitment of [1, 2])
      expect(sorted(published[commitment]!)).toEqual(sorted(expected(slots)[commitment]!))
  })

  it('keeps its bank until then, whatever other nodes send and whichever are cut', () => {
    const slots = slotsOf(12)
    const late = ofSlot(slots, 1_003, 'transaction').at(-1)!
    const dead = slotUpdate(
      { slot: 1_003, createdAtMs: 1 },
      { parent: 1_001, status: slotStatus.createdBank },
    )
    const { sink, published, send } = open()
    sink.opened(null, 0, 'one')
    sink.opened(null, 1, 'other')
    send(
      slots
        .slice(0, 6)
        .flat()
        .filter((one) => one !== late),
    )
    send([...slots.slice(0, 3).flat(), dead], 1)
    send([late])
    send(slots.slice(6).flat())
    for (const commitment of [1, 2])
      expect(sorted(published[commitment]!)).toEqual(sorted(expected(slots)[commitment]!))
    expect(sink.counts().replacedBanks).toBe(0)
  })

  describe('while another node has another block of it', () => {
    const isOf = (slot: number) => (one: SolanaUpdate) => isSent(one) && one.slot === slot
    /** What two nodes have: the one that confirms it, and the other. */
    function openTwo() {
      const slots = slotsOf(12)
      const confirmed = slotUpdate(
        { slot: 1_003, createdAtMs: 1 },
        { parent: 1_002, status: slotStatus.confirmed },
      )
      const own = slots[3]!.filter(isOf(1_003))
      const { sink, published, send } = open()
      sink.opened(null, 0, 'one')
      sink.opened(null, 1, 'other')
      for (const stream of [0, 1]) send(slots.slice(0, 3).flat(), stream)
      const expectOwn = () => {
        const names = own.filter(({ kind }) => kind !== 'slot').map(nameOf)
        expect(published[1]!.get(1_003)?.toSorted()).toEqual([...names, 'block'].sort())
      }
      const isAtEntry = ({ kind }: SolanaUpdate) => kind === 'entry'
      const begun = own.slice(0, own.findIndex(isAtEntry) + 1)
      const next = slots[4]!.filter(isOf(1_004)).slice(0, 3)
      return {
        sink,
        published,
        send,
        own,
        other: otherBlockOf(own),
        confirmed,
        expectOwn,
        begun,
        next,
      }
    }

    it('is confirmed as its node has it, whose meta follows', () => {
      const { published, send, own, other, confirmed, expectOwn, begun, next } = openTwo()
      send(other, 1)
      send([...begun, confirmed])
      send(next, 1)
      expect(published[1]!.get(1_003)).toBeUndefined()
      send(own.slice(begun.length))
      expectOwn()
    })

    it.each([
      ['the other stays', false],
      ['the other is cut before', true],
    ])('is confirmed by the replay of its node, which was cut: %s', (_, areBothCut) => {
      for (const areInterleaved of [true, false]) {
        const { sink, published, send, own, other, confirmed, expectOwn, begun, next } = openTwo()
        // Items of both interleave, or those of its node follow the block of the other.
        const at = areInterleaved
          ? other.findIndex(({ kind }) => kind === 'blockMeta')
          : other.length
        send(other.slice(0, at), 1)
        send(begun)
        send(other.slice(at), 1)
        send([confirmed])
        if (areBothCut) sink.closed(1)
        sink.closed(0)
        if (areBothCut) sink.opened(1_003, 1, 'other')
        send([...(areBothCut ? other : []), ...next], 1)
        expect(published[1]!.get(1_003)).toBeUndefined()
        sink.opened(1_003, 0, 'one')
        send([...own, confirmed])
        expectOwn()
      }
    })
  })

  it.each([
    ['a block', [1_003], [1_003]],
    ['the first ones, of nodes that send no whole block', undefined, [1_000, 1_001, 1_002, 1_003]],
  ])('is marked as incomplete where it is not waited for any longer: %s', (_, lacking, marked) => {
    const slots = slotsOf(20)
    const { hub, sink, send } = open()
    const found = new Set<number>()
    hub.listen((_commitment, update) => {
      if (update.kind === 'blockMeta' && update.isIncomplete) found.add(update.slot)
    })
    sink.opened(null)
    for (const slot of slots) {
      const last = slot.findLast(({ kind }) => kind === 'transaction')!
      send(lacking?.includes(last.slot) === false ? slot : slot.filter((one) => one !== last))
    }
    expect([...found]).toEqual(marked)
  })

  it('waits no longer than two seconds, and for no other one until a block is whole', () => {
    const slots = slotsOf(20)
    const lost = (slot: number) => ofSlot(slots, slot, 'transaction').at(-1)!
    const missing = new Set([lost(1_003), lost(1_004), lost(1_010)])
    const { sink, published, send } = open()
    sink.opened(null)
    const newest = () => Math.max(...published[1]!.keys())
    const seen = slots.map((slot) => {
      send(slot.filter((one) => !missing.has(one)))
      return newest()
    })
    // 1003 is given up when 1008 is confirmed, and 1004 with it; 1010 is when 1015 is.
    const until = (from: number, to: number) =>
      Array.from({ length: to - from + 1 }, (_, index) => from + index)
    const waiting = (slot: number) => Array<number>(5).fill(slot)
    expect(seen.slice(1)).toEqual([
      ...[...until(1_000, 1_002), ...waiting(1_002)],
      ...[...until(1_008, 1_009), ...waiting(1_009), ...until(1_015, 1_018)],
    ])
  })
})

describe('a slot that is dead at one node', () => {
  it('is confirmed whole as another has it, whose meta precedes its last transaction', () => {
    const slots = slotsOf(8)
    const expected = open()
    expected.sink.opened(null)
    expected.send(slots.flat())
    const { sink, published, send } = open()
    sink.opened(null, 0, 'one')
    sink.opened(null, 1, 'other')
    send(slots.slice(0, 3).flat())
    const begun = slots[3]!.slice(0, slots[3]!.findIndex(({ kind }) => kind === 'transaction') + 1)
    const dead = slotUpdate(
      { slot: 1_003, createdAtMs: 1 },
      { parent: 1_002, status: slotStatus.dead, deadError: 'x' },
    )
    send([...begun, dead])
    send([...slots.slice(0, 3).flat(), ...withEarlyMeta(slots[3]!), ...slots.slice(4).flat()], 1)
    const sorted = (names: string[] | undefined) => names?.toSorted()
    expect(sorted(published[1]!.get(1_003))).toEqual(sorted(expected.published[1]!.get(1_003)))
    expect(published[1]!.get(1_003)).toContain('block')
  })
})

describe('a slot of which two nodes have different blocks, one of them the parent of the next', () => {
  const slots = slotsOf(24)
  const others = otherBlockOf(slots[3]!)
  const metaOf = (updates: readonly SolanaUpdate[]) =>
    updates.filter(({ kind }) => kind === 'blockMeta')
  const confirmed = slots[4]!.filter((one) => isStatus(one, slotStatus.confirmed))
  const next = slots[4]!.filter((one) => !confirmed.includes(one))
  const blockOf = (slot: number) =>
    [...slots[slot - 1_000]!.filter(({ kind }) => kind !== 'slot').map(nameOf)].sort()
  const open2 = () => {
    const opened = open()
    for (const stream of [0, 1]) {
      opened.sink.opened(null, stream)
      opened.send(slots.slice(0, 3).flat(), stream)
    }
    return { ...opened, at: (slot: number) => opened.published[1]!.get(slot)?.toSorted() }
  }

  it.each([
    ['the first to be sent', true],
    ['sent after its node was cut', false],
  ])('is confirmed as the next one names it, %s', (_, isFirst) => {
    const { sink, send, at } = open2()
    const [meta] = metaOf(others)
    if (isFirst) send(others, 1)
    else send(others.slice(0, others.indexOf(meta!)), 1)
    send([...slots[3]!, ...next])
    sink.closed(0)
    if (!isFirst) send([meta!], 1)
    // It comes back without a replay.
    sink.opened(null, 0)
    send([...confirmed, ...slots[5]!])
    expect(at(1_003)).toEqual(blockOf(1_003))
    expect(at(1_004)).toEqual(blockOf(1_004))
  })

  it('waits for what confirms it, while its node has sent neither it nor the next one', () => {
    const { sink, send, at, published } = open2()
    send(others, 1)
    send(slots[3]!)
    sink.closed(0)
    sink.opened(null, 0)
    send([...slots[4]!, ...confirmed])
    expect([...published[1]!.keys()].at(-1)).toBe(1_002)
    send(slots[5]!)
    expect(at(1_003)).toEqual(blockOf(1_003))
  })

  it('waits for its block, which the other one sends later', () => {
    const { sink, send, at, published } = open2()
    sink.closed(0)
    send(others, 1)
    sink.opened(null, 0)
    send([...slots[3]!.slice(9), ...slots[4]!, ...slots[5]!, ...slots[6]!])
    expect([...published[1]!.keys()].at(-1)).toBe(1_002)
    const created = slotUpdate(slots[3]![1]!, { parent: 1_002, status: slotStatus.createdBank })
    send([created, ...slots[3]!.slice(2), ...slots[4]!], 1)
    for (const slot of [1_003, 1_004, 1_005]) expect(at(slot)).toEqual(blockOf(slot))
    expect(sink.counts().gapSlots).toBe(0)
  })

  it('waits for the other one, which is behind, where nobody has the published block now', () => {
    const { sink, send, at, published } = open2()
    send(others)
    sink.closed(0)
    sink.opened(null, 0)
    send(confirmed)
    expect([...published[1]!.keys()].at(-1)).toBe(1_002)
    send(slots[3]!, 1)
    send(next)
    send(next, 1)
    send(slots[5]!)
    for (const slot of [1_003, 1_004]) expect(at(slot)).toEqual(blockOf(slot))
  })

  it('is left out, and counted, where its block does not come', () => {
    const { sink, send, at, published } = open2()
    sink.closed(0)
    send(others, 1)
    sink.opened(null, 0)
    send([...slots[3]!.slice(9), ...slots.slice(4).flat()])
    for (const commitment of [1, 2])
      expect(published[commitment]!.get(1_003)).toEqual(metaOf(slots[3]!).map(nameOf))
    for (const slot of [1_004, 1_005, 1_015]) expect(at(slot)).toEqual(blockOf(slot))
    expect(sink.counts().gapSlots).toBe(1)
  })

  it.each([
    ['something else', 'other', [0, 1]],
    ['nothing, as one node leaves it out', '', [0]],
  ])('is confirmed at once where blocks name %s', (_, parentBlockhash, by) => {
    const { sink, published, send } = open()
    for (const stream of [0, 1]) sink.opened(null, stream)
    // Every other status confirms the slot before, too.
    const isLeftOut = (one: SolanaUpdate) =>
      isStatus(one, slotStatus.confirmed) && one.slot % 2 === 1
    for (const [at, slot] of slots.entries()) {
      // The nodes are the first to send a slot in turn.
      for (const stream of at % 2 === 0 ? [0, 1] : [1, 0]) {
        const own = slot.filter((one) => !isLeftOut(one))
        send(by.includes(stream) ? own.map((one) => naming(one, parentBlockhash)) : own, stream)
      }
      const newest = [...published[1]!.keys()].at(-1) ?? 998
      expect(newest).toBe(1_000 + 2 * Math.floor((at - 1) / 2))
    }
  })
})
