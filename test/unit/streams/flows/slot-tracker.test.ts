// Streams a chain through the slot tracker: interrupted, replayed, resumed from another node, out of
// order. Whatever happens to the connection, each commitment must get what an uninterrupted stream
// publishes.
import { describe, expect, it } from 'vitest'
import { silentLog } from '../../../../src/base/telemetry/log.ts'
import { accountUpdate, slotUpdate } from '../../../../src/chain/solana/received-batch.ts'
import { type SolanaUpdate, slotStatus } from '../../../../src/chain/solana/updates.ts'
import { SolanaUpstream } from '../../../../src/streams/flows/solana-upstream.ts'
import { openSolanaHub, publishUpdate, type SolanaHub } from '../../../../src/streams/geyser/hub.ts'
import { caseCount } from '../../../testkit/case-count.ts'
import { batchFrom, messageOf } from '../../../testkit/geyser-messages.ts'
import { randomOf, SyntheticSolana } from '../../../testkit/synthetic-solana.ts'
import { isCounted, type Way, withVoidBank } from '../../../testkit/void-banks.ts'

type Published = [string[], string[], string[]]

/** An update as text, without the values that each node assigns itself. */
function describeUpdate(update: SolanaUpdate): string {
  const { kind, slot } = update
  if (kind === 'slot') return `${slot} status ${update.status}`
  if (kind === 'retraction') return `${slot} retraction ${update.bank} ${update.reason}`
  if (kind === 'transaction') return `${slot} transaction ${hex(update.signature)}`
  if (kind === 'entry') return `${slot} entry ${update.index}`
  if (kind === 'blockMeta') return `${slot} meta ${update.blockhash}`
  if (kind === 'account')
    return `${slot} account ${hex(update.pubkey)} ${hex(update.txnSignature ?? update.data)}`
  const { transactions, accounts, entries } = update
  return `${slot} block ${transactions.length} ${accounts.map(({ pubkey }) => hex(pubkey))} ${entries.length}`
}

const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex').slice(0, 24)

function collect(hub: SolanaHub): Published {
  const published: Published = [[], [], []]
  hub.listen((commitment, update) => void published[commitment].push(describeUpdate(update)))
  return published
}

function open() {
  const hub = openSolanaHub({ replaySlots: 150, replayBytesMax: 1e9 })
  const sink = new SolanaUpstream(hub, { log: silentLog })
  return { hub, sink, published: collect(hub) }
}

/** A block contains each account once, at the position of its first write. */
function asBlocksAre(update: SolanaUpdate): SolanaUpdate {
  if (update.kind !== 'block') return update
  const last = new Map(update.accounts.map((account) => [hex(account.pubkey), account]))
  return { ...update, accounts: [...last.values()] }
}

const chainOf = (slots: number, options = {}): SolanaUpdate[] => {
  const chain = new SyntheticSolana({ seed: 3, finalizedAfter: 6, ...options })
  return Array.from({ length: slots }, () => chain.next()).flat()
}

function publishedBy(updates: readonly SolanaUpdate[]): Published {
  const hub = openSolanaHub({ replaySlots: 150, replayBytesMax: 1e9 })
  const published = collect(hub)
  for (const update of updates) publishUpdate(hub, asBlocksAre(update))
  return published
}

const send = (sink: SolanaUpstream, updates: readonly SolanaUpdate[]) => {
  const messages = updates.filter(({ kind }) => kind !== 'block').map((one) => messageOf(one))
  // Several batches, as a stream brings them.
  for (let at = 0; at < messages.length; at += 7) sink.batch(batchFrom(messages.slice(at, at + 7)))
}

/** What a node replays: everything of these slots that it sent so far. */
const replayOf = (updates: readonly SolanaUpdate[], from: number, until: number) =>
  updates.slice(0, until).filter(({ slot }) => slot >= from)

/** The update with another node's write versions and times. */
function asAnotherNodeSends(update: SolanaUpdate): SolanaUpdate {
  const moment = { slot: update.slot, createdAtMs: update.createdAtMs + 7 }
  if (update.kind !== 'account') return { ...update, ...moment }
  return accountUpdate(moment, { ...update, writeVersion: update.writeVersion + 1_000n })
}

describe('slot tracker', () => {
  it('publishes a node’s slots at every commitment like the embedded chain, with blocks', () => {
    const updates = chainOf(30)
    const { sink, published } = open()
    sink.opened(null)
    send(sink, updates)
    expect(published).toEqual(publishedBy(updates))
    expect(sink.counts()).toMatchObject({ duplicates: 0, gapSlots: 0, incompleteBlocks: 0 })
  })

  it('deduplicates replays and leaves no gap, wherever connections break', () => {
    const updates = chainOf(40)
    const expected = publishedBy(updates)
    // The end is not interrupted: statuses lost in a break are derived from later ones.
    const calm = updates.findIndex(({ slot }) => slot === 1030)
    const random = randomOf(77)
    for (let round = 0; round < caseCount(5, 60); round++) {
      const { sink, published } = open()
      let at = 0
      sink.opened(null)
      while (at < updates.length) {
        const cut = at > calm ? updates.length : at + 1 + Math.floor(random() * 160)
        send(sink, updates.slice(at, cut))
        at = Math.min(cut, updates.length)
        if (at === updates.length) break
        const from = sink.resumeFrom()!
        // The chain continued meanwhile; the replay reaches up to now.
        at = Math.min(updates.length, at + Math.floor(random() * 120))
        sink.opened(from)
        send(sink, replayOf(updates, from, at))
      }
      expect(published[0].toSorted()).toEqual(expected[0].toSorted())
      for (const commitment of [1, 2] as const)
        expect(contentOf(published[commitment])).toEqual(contentOf(expected[commitment]))
      expect(new Set(published[0]).size).toBe(published[0].length)
      expect(sink.counts()).toMatchObject({ gapSlots: 0, incompleteBlocks: 0, rewrittenBlocks: 0 })
    }
  })

  it('deduplicates a replay of another node with its own write versions and times', () => {
    const updates = chainOf(24)
    const { sink, published } = open()
    sink.opened(null)
    const cut = Math.floor(updates.length / 2) + 5
    send(sink, updates.slice(0, cut))
    const from = sink.resumeFrom()!
    sink.opened(from)
    send(sink, replayOf(chainOf(24), from, updates.length).map(asAnotherNodeSends))
    expect(published[0].toSorted()).toEqual(publishedBy(updates)[0].toSorted())
  })

  it('completes a block whose meta is the first message of its slot on a new connection', () => {
    const updates = chainOf(24)
    const { sink, published } = open()
    sink.opened(null)
    const cut = updates.findIndex(({ kind, slot }) => kind === 'entry' && slot === 1005)
    send(sink, updates.slice(0, cut))
    sink.opened(1005)
    const isFirst = ({ kind, slot }: SolanaUpdate) => kind === 'blockMeta' && slot === 1005
    const replayed = replayOf(updates, 1005, updates.length)
    send(sink, [...replayed.filter(isFirst), ...replayed.filter((one) => !isFirst(one))])
    expect(published[0].toSorted()).toEqual(publishedBy(updates)[0].toSorted())
    expect(sink.counts().incompleteBlocks).toBe(0)
  })

  it('counts slots that no node could replay, and continues', () => {
    const updates = chainOf(20)
    const { sink, published } = open()
    sink.opened(null)
    const cut = updates.findIndex(({ kind, slot }) => kind === 'entry' && slot === 1005)
    send(sink, updates.slice(0, cut))
    // 1004 is complete and not confirmed: its node may confirm another version of it.
    expect(sink.resumeFrom()).toBe(1004)
    sink.opened(1008)
    send(sink, replayOf(updates, 1008, updates.length))
    expect(sink.counts().gapSlots).toBe(3)
    expect(sink.resumeFrom()).toBe(1019)
    const metas = published[1]
      .filter((words) => words.includes('meta'))
      .map((words) => Number.parseInt(words, 10))
    // 1004 was complete, but whether the chain continued from it is lost with the slots after it.
    expect(metas).toEqual([
      1000,
      1001,
      1002,
      1003,
      ...Array.from({ length: 11 }, (_, at) => 1008 + at),
    ])
  })

  it('counts a gap when a node replays nothing at all', () => {
    const updates = chainOf(20)
    const { sink } = open()
    sink.opened(null)
    send(
      sink,
      updates.filter(({ slot }) => slot < 1005),
    )
    sink.opened(null)
    send(
      sink,
      updates.filter(({ slot }) => slot > 1007),
    )
    expect(sink.counts().gapSlots).toBe(4)
  })

  it('leaves a slot out that a connection without a replay began inside of', () => {
    const updates = chainOf(20)
    const isFirst = ({ slot }: SolanaUpdate) => slot === 1000
    for (const kind of ['account', 'transaction', 'entry', 'blockMeta'] as const) {
      const begin = updates.findIndex((one) => isFirst(one) && one.kind === kind)
      const { sink, published } = open()
      sink.opened(null)
      send(sink, updates.slice(begin))
      const expected = publishedBy(updates.filter((one) => !isFirst(one)))
      for (const commitment of [0, 1, 2] as const)
        expect(contentOf(published[commitment])).toEqual(contentOf(expected[commitment]))
      expect(published[1]).toContain('1000 status 2')
      expect(sink.counts()).toMatchObject({ gapSlots: 0, incompleteBlocks: 0 })
    }
  })

  it('has the whole slot when the next connection replays it, and counts it when none does', () => {
    const updates = chainOf(20)
    const begin = updates.findIndex(({ kind, slot }) => kind === 'entry' && slot === 1004)
    const { sink, published } = open()
    sink.opened(null)
    send(sink, updates.slice(begin, begin + 2))
    sink.opened(1004)
    send(sink, replayOf(updates, 1004, updates.length))
    const expected = publishedBy(updates.filter(({ slot }) => slot >= 1004))
    expect(contentOf(published[2])).toEqual(contentOf(expected[2]))
    const later = open()
    later.sink.opened(null)
    send(
      later.sink,
      replayOf(updates, 1000, begin).filter(({ slot }) => slot < 1003),
    )
    later.sink.opened(null)
    send(later.sink, updates.slice(begin))
    // 1002, which may lack its end, 1003 and what was sent of 1004.
    expect(later.sink.counts()).toMatchObject({ gapSlots: 3, incompleteBlocks: 0 })
  })

  it('publishes the new version at confirmed and finalized when a restarted node rebuilds a slot', () => {
    const before = chainOf(6)
    const { sink, published } = open()
    sink.opened(null)
    const cut = before.findIndex(({ kind, slot }) => kind === 'entry' && slot === 1005)
    send(sink, before.slice(0, cut))
    const lost = describeUpdate(
      before.findLast(({ kind, slot }, at) => at < cut && kind === 'transaction' && slot === 1005)!,
    )
    const onto = { firstSlot: 1005, parentBlockhash: '' }
    const again = new SyntheticSolana({ seed: 99, ...onto, finalizedAfter: 6 })
    sink.opened(1005)
    const after = [again.next(), again.next(), again.next()].flat()
    send(sink, after)
    const kept = describeUpdate(after.find(({ kind }) => kind === 'transaction')!)
    expect(published[0]).toContain(lost)
    expect(published[0]).toContain(kept)
    expect(published[1]).toContain(kept)
    expect(published[1]).not.toContain(lost)
    expect(contentOf(published[1]).filter((words) => words.startsWith('1005'))).toEqual(
      contentOf(
        after.filter(({ slot }) => slot === 1005).map((one) => describeUpdate(asBlocksAre(one))),
      ),
    )
  })

  it('replaces a complete block that the node replays differently, until it is confirmed', () => {
    const updates = chainOf(4)
    const { sink, published } = open()
    sink.opened(null)
    send(sink, updates)
    const other = new SyntheticSolana({ seed: 50, firstSlot: 1002, finalizedAfter: 9 })
    sink.opened(1002)
    const after = [other.next(), other.next(), other.next()].flat()
    send(sink, after)
    expect(sink.counts().rewrittenBlocks).toBe(2)
    const metaOf = (slot: number) =>
      published[1].filter((words) => words.startsWith(`${slot} meta`))
    // 1002 was confirmed as it was; 1003 was not.
    const hashIn = (from: readonly SolanaUpdate[], slot: number) =>
      describeUpdate(from.find((one) => one.kind === 'blockMeta' && one.slot === slot)!)
    expect(metaOf(1002)).toEqual([hashIn(updates, 1002)])
    expect(metaOf(1003)).toEqual([hashIn(after, 1003)])
  })

  it('confirms and finalizes ancestors when a node skips their own status', () => {
    const updates = chainOf(16)
    const skips = (update: SolanaUpdate) =>
      update.kind === 'slot' &&
      (update.status === 1 || update.status === 2) &&
      update.slot % 4 !== 0
    const { sink, published } = open()
    sink.opened(null)
    send(
      sink,
      updates.filter((update) => !skips(update)),
    )
    const expected = publishedBy(updates)
    const upTo = (words: readonly string[], slot: number) =>
      contentOf(words).filter((one) => Number.parseInt(one, 10) <= slot)
    expect(upTo(published[1], 1012)).toEqual(upTo(expected[1], 1012))
    expect(upTo(published[2], 1008)).toEqual(upTo(expected[2], 1008))
    expect(published[0].filter((one) => one === '1003 status 1')).toHaveLength(1)
  })

  it('gives the statuses of every slot in one order, whichever a node sends first or not at all', () => {
    const random = randomOf(11)
    const isReached = (one: SolanaUpdate) => one.kind === 'slot' && one.status <= 2
    const updates = chainOf(16, { finalizedAfter: 2 })
    for (let round = 0; round < caseCount(5, 100); round++) {
      const sent: SolanaUpdate[] = []
      /** Statuses that two threads of the node send, in any order; ROOTED is never left out. */
      let waiting: SolanaUpdate[] = []
      for (const update of updates) {
        if (!isReached(update)) {
          sent.push(update)
          continue
        }
        const isLeftOut = update.kind === 'slot' && update.status !== 2 && random() < 0.3
        if (!isLeftOut) waiting.push(update)
        const isOfNext = update.kind === 'slot' && update.status === 2
        if (!isOfNext) continue
        // Not before the block of their slot.
        waiting.sort(() => random() - 0.5)
        sent.push(...waiting.splice(0, waiting.length - (random() < 0.5 ? 1 : 0)))
      }
      const { sink, published } = open()
      sink.opened(null)
      send(sink, [...sent, ...waiting])
      waiting = []
      const newest = 1_013
      const statuses = published[0].filter((one) => / status [012]$/.test(one))
      for (let slot = 1_000; slot <= newest; slot++)
        expect(
          statuses.filter((one) => one.startsWith(`${slot} `)),
          `round ${round}`,
        ).toEqual([0, 1, 2].map((status) => `${slot} status ${status}`))
      for (const status of [1, 2]) {
        const slots = statuses.filter((one) => one.endsWith(`status ${status}`))
        expect(slots).toEqual(slots.toSorted())
      }
      const expected = publishedBy(updates)
      const upTo = (words: readonly string[]) =>
        contentOf(words).filter((one) => Number.parseInt(one, 10) <= newest)
      for (const commitment of [1, 2] as const)
        expect(upTo(published[commitment])).toEqual(upTo(expected[commitment]))
      expect(sink.counts()).toMatchObject({ gapSlots: 0, incompleteBlocks: 0 })
    }
  })

  it('waits for items that arrive after the meta, and publishes no status before the block', () => {
    const updates = chainOf(3)
    const late = (update: SolanaUpdate) =>
      update.slot === 1001 &&
      (update.kind === 'entry' || (update.kind === 'transaction' && update.index > 3))
    const at = updates.findIndex(
      (one) => one.kind === 'slot' && one.slot === 1001 && one.status === 0,
    )
    const moved = updates.filter(late)
    const mixed = updates.filter((update) => !late(update))
    const behind = mixed.indexOf(updates[at]!)
    mixed.splice(behind + 1, 0, ...moved.toReversed())
    const { sink, published } = open()
    sink.opened(null)
    send(sink, mixed)
    const of = published[0].filter((words) => words.startsWith('1001'))
    expect(of.findIndex((words) => words.includes('block'))).toBe(of.length - 4)
    expect(of.slice(-3).map((words) => words.split(' ')[1])).toEqual(['meta', 'status', 'status'])
    const block = of.find((words) => words.includes('block'))
    expect(block).toBe(publishedBy(updates)[0].find((words) => words.startsWith('1001 block')))
  })

  it('publishes the meta without the block when items are missing, and counts it', () => {
    const updates = chainOf(12)
    const missing = updates.find(({ kind, slot }) => kind === 'transaction' && slot === 1002)
    const { sink, published } = open()
    sink.opened(null)
    send(
      sink,
      updates.filter((update) => update !== missing),
    )
    expect(sink.counts().incompleteBlocks).toBe(1)
    const of = published[1].filter((words) => words.startsWith('1002'))
    expect(of.some((words) => words.includes('block'))).toBe(false)
    const kinds = of.map((words) => words.split(' ').slice(1, 3).join(' ').slice(0, 8))
    expect(kinds.slice(-4)).toEqual([
      'entry 0',
      expect.stringContaining('meta'),
      'status 1',
      'status 2',
    ])
  })

  it.each([
    [400, 0],
    [200, 1],
  ])('knows the slots below the finalized one for 25 s, of %i ms each', (slotMs, rewritten) => {
    const { hub, sink } = open()
    sink.opened(null)
    const updates = chainOf(140)
    for (const update of updates)
      Object.assign(update, { createdAtMs: (update.slot - 1_000) * slotMs })
    send(sink, updates)
    expect(hub.slotTime.ms).toBe(slotMs)
    // 1133 is finalized. A node replays another block 100 slots below it.
    sink.opened(1_033)
    send(sink, new SyntheticSolana({ seed: 50, firstSlot: 1_033 }).next())
    expect(sink.counts().rewrittenBlocks).toBe(rewritten)
  })

  it('drops forks and dead slots when another slot is finalized', () => {
    const { hub, sink, published } = open()
    sink.opened(null)
    const updates = chainOf(3)
    send(sink, updates)
    // A fork beside 1002, and a slot that died.
    const at = (slot: number) => ({ slot, createdAtMs: 1 })
    const fork = new SyntheticSolana({ seed: 8, firstSlot: 1003 }).next()
    send(sink, fork)
    send(sink, [slotUpdate(at(1004), { parent: 1002, status: slotStatus.dead, deadError: 'x' })])
    const last = new SyntheticSolana({ seed: 9, firstSlot: 1005 }).next()
    const linked = last.map((update) => {
      if (update.kind === 'blockMeta') return { ...update, parentSlot: 1002 }
      if (update.kind !== 'slot') return update
      return slotUpdate(at(1005), { parent: 1002, status: update.status })
    })
    send(sink, linked)
    send(sink, [slotUpdate(at(1005), { parent: 1002, status: 2 })])
    expect(
      published[2]
        .filter((words) => words.startsWith('1003'))
        .every((words) => words.includes('status')),
    ).toBe(true)
    expect(published[2]).toContain('1002 status 2')
    expect(published[0]).not.toContain('1003 status 2')
    expect(hub.newestSlot).toBe(1005)
  })
})

describe('banks of a slot', () => {
  const statusOf = (slot: number, status: 6) =>
    slotUpdate({ slot, createdAtMs: 1 }, { parent: slot - 1, status, deadError: 'x' })

  const bySlot = (slots: number, seed: number) => {
    const chain = new SyntheticSolana({ seed, finalizedAfter: 6 })
    return Array.from({ length: slots }, () => chain.next())
  }

  const seeds = Number(process.env.SLUICE_SEEDS ?? caseCount(5, 100))
  it(`confirms exactly the bank that wins, over ${seeds} seeds`, () => {
    for (let seed = 1; seed <= seeds; seed++) {
      const random = randomOf(seed)
      const slots = bySlot(12, seed)
      const ways: Way[] = ['handover', 'dead', 'switch']
      let replaced = 0
      const sent = slots.map((slot, index) => {
        if (index < 2 || random() > 1 / 3) return slot
        replaced++
        return withVoidBank(slot, ways[Math.floor(random() * 3)]!, random)
      })
      const { sink, published } = open()
      sink.opened(null)
      send(sink, sent.flat())
      const expected = publishedBy(slots.flat())
      for (const commitment of [1, 2] as const)
        expect(contentOf(published[commitment]).toSorted(), `seed ${seed}`).toEqual(
          contentOf(expected[commitment]).toSorted(),
        )
      expect(sink.counts()).toMatchObject({ replacedBanks: replaced, incompleteBlocks: 0 })
    }
  })

  it('knows the banks again that another node replays, all of them or only the last', () => {
    const random = randomOf(5)
    for (let round = 0; round < caseCount(5, 100); round++) {
      const slots = bySlot(20, round + 1)
      const sent = slots.map((slot, index) =>
        index < 2 || random() > 1 / 2 ? slot : withVoidBank(slot, 'handover', random),
      )
      const all = sent.flat()
      // The end is not interrupted, as above.
      const cut = 40 + Math.floor(random() * (all.length / 2))
      const { sink, published } = open()
      sink.opened(null)
      send(sink, all.slice(0, cut))
      const from = sink.resumeFrom()!
      sink.opened(from)
      // The other node may have learnt of the new parent before it began.
      const replayed = random() > 0.5 ? all : slots.flat()
      send(sink, replayed.filter(({ slot }) => slot >= from).map(asAnotherNodeSends))
      const expected = publishedBy(slots.flat())
      for (const commitment of [1, 2] as const)
        expect(contentOf(published[commitment]).toSorted(), `round ${round}`).toEqual(
          contentOf(expected[commitment]).toSorted(),
        )
      expect(sink.counts()).toMatchObject({ gapSlots: 0, incompleteBlocks: 0 })
    }
  })

  it('has nothing of a bank whose creation a replay left out', () => {
    for (let seed = 1; seed <= caseCount(8, 20); seed++) {
      const slots = bySlot(10, seed)
      const way = seed % 2 === 0 ? 'handover' : 'dead'
      const replaced = withVoidBank(slots[4]!, way, randomOf(seed))
      const isCreated = (one: SolanaUpdate) =>
        one.kind === 'slot' && one.status === slotStatus.createdBank
      const next = replaced.findLastIndex(isCreated)
      const { sink, published } = open()
      sink.opened(1000)
      send(sink, slots.slice(0, 4).flat())
      send(
        sink,
        replaced.slice(0, next).filter(({ kind }) => kind !== 'slot'),
      )
      send(sink, [...replaced.slice(next), ...slots.slice(5).flat()])
      const expected = publishedBy(slots.flat())
      for (const commitment of [1, 2] as const)
        expect(contentOf(published[commitment]).toSorted(), `seed ${seed}`).toEqual(
          contentOf(expected[commitment]).toSorted(),
        )
    }
  })

  it('does not tell the creation of a bank after its content', () => {
    const slots = bySlot(6, 4)
    const { sink, published } = open()
    sink.opened(1000, 0, 'a')
    sink.opened(1000, 1, 'b')
    const isCreated = (one: SolanaUpdate) => one.kind === 'slot' && one.status === 5
    send(
      sink,
      slots.flat().filter((one) => !isCreated(one)),
    )
    const messages = slots.flat().filter(({ kind }) => kind !== 'block')
    sink.batch(batchFrom(messages.map((one) => messageOf(one))), 1)
    expect(published[0].filter((words) => words.endsWith('status 5'))).toEqual([])
    expect(contentOf(published[1])).toEqual(contentOf(publishedBy(slots.flat())[1]))
  })

  it('publishes every bank as it comes at processed, and the new parent', () => {
    const slots = bySlot(6, 4)
    const replaced = withVoidBank(slots[3]!, 'handover', randomOf(8))
    const { hub, sink, published } = open()
    const parents: (number | null)[] = []
    hub.listen((commitment, update) => {
      if (commitment === 0 && update.kind === 'slot' && update.status === slotStatus.createdBank)
        if (update.slot === 1003) parents.push(update.parent)
    })
    sink.opened(null)
    send(sink, [...slots.slice(0, 3).flat(), ...replaced, ...slots.slice(4).flat()])
    expect(parents).toEqual([1001, 1002])
    const of = (from: readonly SolanaUpdate[]) =>
      from.filter(isCounted).map((one) => describeUpdate(one))
    for (const one of of(replaced)) expect(published[0]).toContain(one)
  })

  it('never replaces a confirmed block', () => {
    const slots = bySlot(8, 6)
    const late = withVoidBank(slots[2]!, 'handover', randomOf(3))
    const { sink, published } = open()
    sink.opened(null)
    send(sink, slots.slice(0, 5).flat())
    send(sink, late)
    send(sink, slots.slice(5).flat())
    expect(contentOf(published[1])).toEqual(contentOf(publishedBy(slots.flat())[1]))
  })

  it('confirms the whole block of a slot that was dead on another node', () => {
    const slots = bySlot(8, 9)
    const { sink, published } = open()
    sink.opened(null)
    send(sink, slots.slice(0, 3).flat())
    const items = slots[3]!.filter(({ kind }) => kind !== 'blockMeta')
    send(sink, [...items.slice(0, -2), statusOf(1003, slotStatus.dead)])
    sink.opened(1003)
    send(sink, slots.slice(3).flat().map(asAnotherNodeSends))
    expect(contentOf(published[1])).toEqual(contentOf(publishedBy(slots.flat())[1]))
    const retractions = published[0].filter((words) => words.includes('retraction'))
    expect(new Set(retractions).size).toBe(2)
    for (const words of retractions) expect(words).toMatch(/^1003 retraction \d+ dead$/)
  })

  it('finalizes a confirmed slot though a node replays its dead bank', () => {
    const slots = bySlot(14, 9)
    const { sink, published } = open()
    sink.opened(null)
    send(sink, slots.slice(0, 6).flat())
    sink.opened(1003)
    send(sink, [statusOf(1003, slotStatus.dead), ...slots.slice(3).flat()])
    expect(contentOf(published[2])).toEqual(contentOf(publishedBy(slots.flat())[2]))
    expect(published[0]).not.toContain('1003 status 6')
  })

  it('confirms nothing of a slot whose second bank is incomplete', () => {
    const slots = bySlot(12, 7)
    const replaced = withVoidBank(slots[3]!, 'handover', randomOf(2))
    const missing = slots[3]!.findLast(({ kind }) => kind === 'transaction')
    const { sink, published } = open()
    sink.opened(null)
    send(
      sink,
      [...slots.slice(0, 3).flat(), ...replaced, ...slots.slice(4).flat()].filter(
        (one) => one !== missing,
      ),
    )
    expect(sink.counts().incompleteBlocks).toBe(1)
    const of = contentOf(published[1]).filter((words) => words.startsWith('1003'))
    expect(of.map((words) => words.split(' ')[1])).toEqual(['meta'])
  })
})

/** Everything but the interslot statuses, which go to all commitments at once. */
function contentOf(updates: readonly string[]): string[] {
  return updates.filter((words) => !words.includes('status'))
}
