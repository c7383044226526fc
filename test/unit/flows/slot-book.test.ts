// The story of a chain through a node's stream: cut, replayed, told by another node, out of order.
// Whatever happens to the connection, each lane must say what the uncut story says.
import { describe, expect, it } from 'vitest'
import { systemClock } from '../../../src/base/clock.ts'
import { SolanaUpstream } from '../../../src/flows/solana-upstream.ts'
import { openSolanaHub, publishUpdate, type SolanaHub } from '../../../src/geyser/hub.ts'
import { accountUpdate, slotUpdate } from '../../../src/solana/update-build.ts'
import { type SolanaUpdate, slotStatus } from '../../../src/solana/updates.ts'
import { silentLog } from '../../../src/telemetry/log.ts'
import { messageOf } from '../../support/geyser-messages.ts'
import { randomOf, SyntheticSolana } from '../../support/synthetic-solana.ts'

type Lanes = [string[], string[], string[]]

/** What an update says, without what nodes number by themselves. */
function wordsOf(update: SolanaUpdate): string {
  const { kind, slot } = update
  if (kind === 'slot') return `${slot} status ${update.status}`
  if (kind === 'transaction') return `${slot} transaction ${hex(update.signature)}`
  if (kind === 'entry') return `${slot} entry ${update.index}`
  if (kind === 'blockMeta') return `${slot} meta ${update.blockhash}`
  if (kind === 'account')
    return `${slot} account ${hex(update.pubkey)} ${hex(update.txnSignature ?? update.data)}`
  const { transactions, accounts, entries } = update
  return `${slot} block ${transactions.length} ${accounts.map(({ pubkey }) => hex(pubkey))} ${entries.length}`
}

const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex').slice(0, 24)

function hear(hub: SolanaHub): Lanes {
  const lanes: Lanes = [[], [], []]
  hub.listen((lane, update) => void lanes[lane].push(wordsOf(update)))
  return lanes
}

function open() {
  const hub = openSolanaHub({ replaySlots: 150, replayBytesMax: 1e9 })
  const sink = new SolanaUpstream(hub, { clock: systemClock, log: silentLog })
  return { hub, sink, lanes: hear(hub) }
}

/** A block shows each account once, at the place of its first write. */
function asBlocksAre(update: SolanaUpdate): SolanaUpdate {
  if (update.kind !== 'block') return update
  const last = new Map(update.accounts.map((account) => [hex(account.pubkey), account]))
  return { ...update, accounts: [...last.values()] }
}

const storyOf = (slots: number, options = {}): SolanaUpdate[] => {
  const chain = new SyntheticSolana({ seed: 3, finalizedAfter: 6, ...options })
  return Array.from({ length: slots }, () => chain.next()).flat()
}

function told(story: readonly SolanaUpdate[]): Lanes {
  const hub = openSolanaHub({ replaySlots: 150, replayBytesMax: 1e9 })
  const lanes = hear(hub)
  for (const update of story) publishUpdate(hub, asBlocksAre(update))
  return lanes
}

const send = (sink: SolanaUpstream, updates: readonly SolanaUpdate[]) => {
  for (const update of updates) if (update.kind !== 'block') sink.message(messageOf(update))
}

/** What a node replays: everything of these slots that it said so far. */
const replayOf = (story: readonly SolanaUpdate[], from: number, until: number) =>
  story.slice(0, until).filter(({ slot }) => slot >= from)

/** With write versions and times of its own. */
function asAnotherNodeSays(update: SolanaUpdate): SolanaUpdate {
  const moment = { slot: update.slot, createdAtMs: update.createdAtMs + 7 }
  if (update.kind !== 'account') return { ...update, ...moment }
  return accountUpdate(moment, { ...update, writeVersion: update.writeVersion + 1_000n })
}

describe('the slots of a node’s stream', () => {
  it('reach every lane as if the chain were ours, blocks included', () => {
    const story = storyOf(30)
    const { sink, lanes } = open()
    sink.opened(null)
    send(sink, story)
    expect(lanes).toEqual(told(story))
    expect(sink.counts()).toMatchObject({ duplicates: 0, gapSlots: 0, incompleteBlocks: 0 })
  })

  it('are told once, without a gap, wherever connections break and replays begin', () => {
    const story = storyOf(40)
    const expected = told(story)
    // The end comes uncut: what a break hid of older slots follows from what comes later.
    const calm = story.findIndex(({ slot }) => slot === 1030)
    const random = randomOf(77)
    for (let round = 0; round < 60; round++) {
      const { sink, lanes } = open()
      let at = 0
      sink.opened(null)
      while (at < story.length) {
        const cut = at > calm ? story.length : at + 1 + Math.floor(random() * 160)
        send(sink, story.slice(at, cut))
        at = Math.min(cut, story.length)
        if (at === story.length) break
        const from = sink.resumeFrom()!
        // The chain went on meanwhile; the replay reaches up to now.
        at = Math.min(story.length, at + Math.floor(random() * 120))
        sink.opened(from)
        send(sink, replayOf(story, from, at))
      }
      expect(lanes[0].toSorted()).toEqual(expected[0].toSorted())
      for (const lane of [1, 2] as const)
        expect(contentOf(lanes[lane])).toEqual(contentOf(expected[lane]))
      expect(new Set(lanes[0]).size).toBe(lanes[0].length)
      expect(sink.counts()).toMatchObject({ gapSlots: 0, incompleteBlocks: 0, rewrittenBlocks: 0 })
    }
  })

  it('are told once when another node goes on: write versions and times are its own', () => {
    const story = storyOf(24)
    const { sink, lanes } = open()
    sink.opened(null)
    const cut = Math.floor(story.length / 2) + 5
    send(sink, story.slice(0, cut))
    const from = sink.resumeFrom()!
    sink.opened(from)
    send(sink, replayOf(storyOf(24), from, story.length).map(asAnotherNodeSays))
    expect(lanes[0].toSorted()).toEqual(told(story)[0].toSorted())
  })

  it('count what no node could replay, and go on', () => {
    const story = storyOf(20)
    const { sink, lanes } = open()
    sink.opened(null)
    const cut = story.findIndex(({ kind, slot }) => kind === 'entry' && slot === 1005)
    send(sink, story.slice(0, cut))
    expect(sink.resumeFrom()).toBe(1005)
    sink.opened(1008)
    send(sink, replayOf(story, 1008, story.length))
    expect(sink.counts().gapSlots).toBe(3)
    expect(sink.resumeFrom()).toBe(1019)
    const metas = lanes[1]
      .filter((words) => words.includes('meta'))
      .map((words) => Number.parseInt(words, 10))
    // 1004 was whole, but whether the chain went on from it is lost with what came behind it.
    expect(metas).toEqual([
      1000,
      1001,
      1002,
      1003,
      ...Array.from({ length: 11 }, (_, at) => 1008 + at),
    ])
  })

  it('count a gap when a node replays nothing at all', () => {
    const story = storyOf(20)
    const { sink } = open()
    sink.opened(null)
    send(
      sink,
      story.filter(({ slot }) => slot < 1005),
    )
    sink.opened(null)
    send(
      sink,
      story.filter(({ slot }) => slot > 1007),
    )
    expect(sink.counts().gapSlots).toBe(4)
  })

  it('give the surer lanes the slot as it became, when a restarted node makes it anew', () => {
    const before = storyOf(6)
    const { sink, lanes } = open()
    sink.opened(null)
    const cut = before.findIndex(({ kind, slot }) => kind === 'entry' && slot === 1005)
    send(sink, before.slice(0, cut))
    const lost = wordsOf(
      before.findLast(({ kind, slot }, at) => at < cut && kind === 'transaction' && slot === 1005)!,
    )
    const again = new SyntheticSolana({ seed: 99, firstSlot: 1005, finalizedAfter: 6 })
    sink.opened(1005)
    const after = [again.next(), again.next(), again.next()].flat()
    send(sink, after)
    const kept = wordsOf(after.find(({ kind }) => kind === 'transaction')!)
    expect(lanes[0]).toContain(lost)
    expect(lanes[0]).toContain(kept)
    expect(lanes[1]).toContain(kept)
    expect(lanes[1]).not.toContain(lost)
    expect(contentOf(lanes[1]).filter((words) => words.startsWith('1005'))).toEqual(
      contentOf(after.filter(({ slot }) => slot === 1005).map((one) => wordsOf(asBlocksAre(one)))),
    )
  })

  it('replace a complete block that the node tells otherwise, until it is confirmed', () => {
    const story = storyOf(4)
    const { sink, lanes } = open()
    sink.opened(null)
    send(sink, story)
    const other = new SyntheticSolana({ seed: 50, firstSlot: 1002, finalizedAfter: 9 })
    sink.opened(1002)
    const after = [other.next(), other.next(), other.next()].flat()
    send(sink, after)
    expect(sink.counts().rewrittenBlocks).toBe(2)
    const metaOf = (slot: number) => lanes[1].filter((words) => words.startsWith(`${slot} meta`))
    // 1002 was confirmed as it was; 1003 was not.
    const hashIn = (from: readonly SolanaUpdate[], slot: number) =>
      wordsOf(from.find((one) => one.kind === 'blockMeta' && one.slot === slot)!)
    expect(metaOf(1002)).toEqual([hashIn(story, 1002)])
    expect(metaOf(1003)).toEqual([hashIn(after, 1003)])
  })

  it('become surer with their descendants, when a node skips their own status', () => {
    const story = storyOf(16)
    const skips = (update: SolanaUpdate) =>
      update.kind === 'slot' &&
      (update.status === 1 || update.status === 2) &&
      update.slot % 4 !== 0
    const { sink, lanes } = open()
    sink.opened(null)
    send(
      sink,
      story.filter((update) => !skips(update)),
    )
    const expected = told(story)
    const upTo = (words: readonly string[], slot: number) =>
      contentOf(words).filter((one) => Number.parseInt(one, 10) <= slot)
    expect(upTo(lanes[1], 1012)).toEqual(upTo(expected[1], 1012))
    expect(upTo(lanes[2], 1008)).toEqual(upTo(expected[2], 1008))
    expect(lanes[0].filter((one) => one === '1003 status 1')).toHaveLength(1)
  })

  it('wait for parts that come behind their meta, and let no status overtake the block', () => {
    const story = storyOf(3)
    const late = (update: SolanaUpdate) =>
      update.slot === 1001 &&
      (update.kind === 'entry' || (update.kind === 'transaction' && update.index > 3))
    const at = story.findIndex(
      (one) => one.kind === 'slot' && one.slot === 1001 && one.status === 0,
    )
    const moved = story.filter(late)
    const mixed = story.filter((update) => !late(update))
    const behind = mixed.indexOf(story[at]!)
    mixed.splice(behind + 1, 0, ...moved.toReversed())
    const { sink, lanes } = open()
    sink.opened(null)
    send(sink, mixed)
    const of = lanes[0].filter((words) => words.startsWith('1001'))
    expect(of.findIndex((words) => words.includes('block'))).toBe(of.length - 4)
    expect(of.slice(-3).map((words) => words.split(' ')[1])).toEqual(['meta', 'status', 'status'])
    const block = of.find((words) => words.includes('block'))
    expect(block).toBe(told(story)[0].find((words) => words.startsWith('1001 block')))
  })

  it('go without their block when parts are missing, and say so', () => {
    const story = storyOf(5)
    const missing = story.find(({ kind, slot }) => kind === 'transaction' && slot === 1002)
    const { sink, lanes } = open()
    sink.opened(null)
    send(
      sink,
      story.filter((update) => update !== missing),
    )
    expect(sink.counts().incompleteBlocks).toBe(1)
    const of = lanes[1].filter((words) => words.startsWith('1002'))
    expect(of.some((words) => words.includes('block'))).toBe(false)
    expect(of.slice(-3).map((words) => words.split(' ').slice(1, 3).join(' ').slice(0, 8))).toEqual(
      ['entry 0', expect.stringContaining('meta'), 'status 1'],
    )
  })

  it('of a fork and of a dead slot are forgotten when another is finalized', () => {
    const { hub, sink, lanes } = open()
    sink.opened(null)
    const story = storyOf(3)
    send(sink, story)
    // A fork beside 1002, and a slot that died.
    const at = (slot: number) => ({ slot, createdAtMs: 1 })
    const fork = new SyntheticSolana({ seed: 8, firstSlot: 1003 }).next()
    send(sink, fork)
    send(sink, [slotUpdate(at(1004), { parent: 1002, status: slotStatus.dead, deadError: 'x' })])
    const last = new SyntheticSolana({ seed: 9, firstSlot: 1005 }).next()
    const linked = last.map((update) =>
      update.kind === 'slot'
        ? slotUpdate(at(1005), { parent: 1002, status: update.status })
        : update,
    )
    send(
      sink,
      linked.filter(({ kind }) => kind !== 'blockMeta'),
    )
    send(sink, [slotUpdate(at(1005), { parent: 1002, status: 2 })])
    expect(
      lanes[2]
        .filter((words) => words.startsWith('1003'))
        .every((words) => words.includes('status')),
    ).toBe(true)
    expect(lanes[2]).toContain('1002 status 2')
    expect(lanes[0]).not.toContain('1003 status 2')
    expect(hub.newestSlot).toBe(1005)
  })
})

/** Everything but the interslot statuses, which go to all lanes at once. */
function contentOf(lane: readonly string[]): string[] {
  return lane.filter((words) => !words.includes('status'))
}
