// A reader that moves between gateways, which publish the items of a slot in other orders: with
// every position it continues with exactly what it does not have.
import { describe, expect, it } from 'vitest'
import type { Commitment } from '../../../../src/base/commitment.ts'
import { retractionUpdate, slotUpdate } from '../../../../src/chain/solana/received-batch.ts'
import { type SolanaUpdate, slotStatus } from '../../../../src/chain/solana/updates.ts'
import { openSolanaHub, publishUpdate } from '../../../../src/streams/geyser/hub.ts'
import {
  decodePosition,
  type Position,
  PublishedSlots,
  Resumption,
} from '../../../../src/streams/geyser/position.ts'
import { caseCount } from '../../../testkit/case-count.ts'
import { sentBack } from '../../../testkit/replayed-updates.ts'
import { randomOf, SyntheticSolana } from '../../../testkit/synthetic-solana.ts'

const slots = 14
const allCommitments = [0, 1, 2] as const

function gateway() {
  const hub = openSolanaHub({ replaySlots: 1e6, replayBytesMax: 1e12 })
  const published = new PublishedSlots(hub)
  return { hub, published, publish: (update: SolanaUpdate) => publishUpdate(hub, update) }
}

const isItem = ({ kind }: SolanaUpdate) => ['account', 'transaction', 'entry'].includes(kind)

/** The same chain in the order of another node: the items of a slot in any order. */
function inOtherOrder(updates: readonly SolanaUpdate[], random: () => number): SolanaUpdate[] {
  const found = [...updates]
  for (let at = 0; at < found.length; at++) {
    let end = at
    while (end < found.length && isItem(found[end]!)) end++
    for (let last = end - 1; last > at; last--) {
      const other = at + Math.floor(random() * (last - at + 1))
      ;[found[last], found[other]] = [found[other]!, found[last]!]
    }
    at = Math.max(at, end)
  }
  return found
}

function textOf(update: SolanaUpdate): string {
  if (update.kind === 'slot') return `${update.slot} status ${update.status} ${update.parent}`
  if (update.kind === 'block') return `${update.slot} block`
  if (update.kind === 'retraction') return `${update.slot} retraction`
  return `${update.slot} ${update.kind} ${Buffer.from(update.body).toString('base64')}`
}

const chainOf = (options = {}) => {
  const chain = new SyntheticSolana({ seed: 3, confirmedAfter: 2, finalizedAfter: 5, ...options })
  return Array.from({ length: slots }, () => chain.next()).flat()
}

type Gateway = ReturnType<typeof gateway>

/** A replay of a node leaves out the life cycle of slots. */
const isReplayed = (update: SolanaUpdate) =>
  update.kind !== 'slot' || update.status <= slotStatus.finalized
const lifeCycleForm = / status [3-9] /

/** What a reader without a position gets. */
function readAll(updates: readonly SolanaUpdate[], commitment: Commitment): string[] {
  const { hub, publish } = gateway()
  const texts: string[] = []
  hub.listen((at, update) => {
    if (at === commitment) texts.push(textOf(update))
  })
  for (const update of updates) publish(update)
  return texts
}

/** Continues at a gateway, to its end. */
function resume({ hub }: Gateway, at: Position) {
  const resumption = new Resumption(sentBack(at))
  const replay = hub.replay(at.commitment, at.floor)!
  const texts: string[] = []
  const conflicts: number[] = []
  const read = () => {
    for (let one = replay.next(); one !== null; one = replay.next()) {
      const verdict = resumption.judge(one)
      if (verdict === 'new') texts.push(textOf(one))
      if (verdict === 'conflict') conflicts.push(one.slot)
    }
  }
  return { resumption, texts, conflicts, read }
}

const sorted = (texts: readonly string[]) => [...texts].sort()

describe('a position', () => {
  it.each(allCommitments)(
    'continues at another gateway from any update on, at %i',
    (commitment) => {
      const updates = chainOf()
      const whole = sorted(readAll(updates, commitment))
      const random = randomOf(9)
      for (let cut = 1; cut < updates.length; cut += caseCount(9, 3)) {
        const here = gateway()
        const had: string[] = []
        here.hub.listen((at, update) => {
          if (at === commitment) had.push(textOf(update))
        })
        for (const update of updates.slice(0, cut)) here.publish(update)
        const at = here.published.position(commitment)
        // The other one is behind or ahead.
        const there = gateway()
        const others = inOtherOrder(updates, random)
        const far = 1 + Math.floor(random() * updates.length)
        for (const update of others.slice(0, far)) there.publish(update)
        const reader = resume(there, at)
        reader.read()
        for (const update of others.slice(far)) there.publish(update)
        reader.read()
        expect(reader.conflicts).toEqual([])
        expect(sorted([...had, ...reader.texts])).toEqual(whole)
      }
    },
  )

  it.each(allCommitments)('of a reader that resumed is as exact, at %i', (commitment) => {
    const updates = chainOf()
    const whole = sorted(readAll(updates, commitment))
    const random = randomOf(4)
    for (let turn = 0; turn < caseCount(10, 30); turn++) {
      const had: string[] = []
      let at: Position = { commitment, floor: 0, slots: [], parts: [] }
      for (let cut = 0; cut < updates.length; ) {
        cut += 1 + Math.floor(random() * 60)
        const there = gateway()
        for (const update of inOtherOrder(updates, random).slice(0, cut)) there.publish(update)
        if (there.hub.oldestSlot === null || at.floor > there.hub.newestSlot!) continue
        if (at.floor < there.hub.oldestSlot) at = { ...at, floor: there.hub.oldestSlot }
        const reader = resume(there, at)
        reader.read()
        had.push(...reader.texts)
        at = reader.resumption.position
        if (reader.resumption.isOver(there.published)) {
          const live = there.published.position(commitment)
          expect(sorted(namesIn(at))).toEqual(sorted(namesIn(live)))
        }
      }
      expect(sorted(had)).toEqual(whole)
    }
  })

  it.each(allCommitments)(
    'repeats nothing where some gateways had the slots from a replay, at %i',
    (commitment) => {
      const updates = chainOf()
      const whole = sorted(readAll(updates.filter(isReplayed), commitment))
      const random = randomOf(6)
      for (let turn = 0; turn < caseCount(10, 30); turn++) {
        const had: string[] = []
        let at: Position = { commitment, floor: updates[0]!.slot, slots: [], parts: [] }
        for (let cut = 30; cut < updates.length + 60; cut += Math.floor(random() * 60)) {
          const there = gateway()
          // It was started again: of slots before, its node left out the life cycle.
          const startSlot = updates[0]!.slot + Math.floor(random() * slots)
          const shown = inOtherOrder(updates, random).slice(0, cut)
          for (const update of shown)
            if (update.slot >= startSlot || isReplayed(update)) there.publish(update)
          if (at.floor > there.hub.newestSlot!) continue
          const reader = resume(there, at)
          reader.read()
          had.push(...reader.texts)
          const isLive = reader.resumption.isOver(there.published)
          at = isLive ? there.published.position(commitment) : reader.resumption.position
        }
        const lifeCycle = had.filter((text) => lifeCycleForm.test(text))
        expect(new Set(lifeCycle).size).toBe(lifeCycle.length)
        expect(sorted(had.filter((text) => !lifeCycleForm.test(text)))).toEqual(whole)
      }
    },
  )

  describe('of a block without its last transaction, which is confirmed', () => {
    const updates = chainOf()
    const [slot, later] = [1_004, 1_007]
    const isOf = (kind: string) => (one: SolanaUpdate) => one.slot === slot && one.kind === kind
    const late = updates.findLast(isOf('transaction'))!
    const isLeftOut = (one: SolanaUpdate) => one === late || isOf('block')(one)
    const whole = updates
    const incomplete = updates
      .filter((one) => !isLeftOut(one))
      .map((one) => (isOf('blockMeta')(one) ? { ...one, isIncomplete: true } : one))
    const toLater = (sent: readonly SolanaUpdate[]) =>
      sent.slice(
        0,
        sent.findIndex((one) => one.slot === later),
      )
    const withLate = [...toLater(incomplete), late, ...incomplete.slice(toLater(incomplete).length)]
    const begun = whole.slice(0, whole.indexOf(late) - 2)
    it.each([
      ['its rest follows at a gateway that has all of it', [toLater(incomplete), whole], whole],
      ['its rest follows there, after one more', [begun, toLater(incomplete), whole], whole],
      ['that comes late at another gateway', [toLater(incomplete), withLate], withLate],
      ['that comes late once, also elsewhere', [toLater(withLate), withLate], withLate],
      ['that was had before, and comes late', [toLater(whole), withLate], whole],
      ['that was had late, and comes late', [withLate.slice(0, -150), withLate], withLate],
    ])('%s', (_, gateways, expected) => {
      for (const commitment of [0, 1] as const) {
        const had: string[] = []
        let at: Position = { commitment, floor: updates[0]!.slot, slots: [], parts: [] }
        for (const sent of gateways) {
          const there = gateway()
          for (const update of toLater(sent)) there.publish(update)
          const reader = resume(there, at)
          reader.read()
          for (const update of sent.slice(toLater(sent).length)) there.publish(update)
          reader.read()
          expect(reader.conflicts).toEqual([])
          had.push(...reader.texts)
          at = reader.resumption.position
          const isLive = reader.resumption.isOver(there.published)
          if (isLive) at = there.published.position(commitment)
        }
        expect(sorted(had)).toEqual(sorted(readAll(expected, commitment)))
      }
    })
  })

  it('sends the whole slot where another bank follows the one that was passed', () => {
    const updates = chainOf()
    const slot = 1008
    const bank = updates.findIndex(
      (one) => one.slot === slot && one.kind === 'slot' && one.status === slotStatus.createdBank,
    )
    const { createdAtMs } = updates[bank]!
    const other = slotUpdate(
      { slot, createdAtMs },
      { parent: 1005, status: slotStatus.createdBank },
    )
    const here = gateway()
    for (const update of updates.slice(0, bank)) here.publish(update)
    here.publish(other)
    for (const update of updates.slice(bank + 1, bank + 6)) here.publish(update)
    const at = here.published.position(0)
    expect(at.parts.map((part) => part.slot)).toEqual([slot])
    const there = gateway()
    for (const update of updates) there.publish(update)
    const reader = resume(there, at)
    reader.read()
    const expected = readAll(updates, 0).filter((text) => text.startsWith(`${slot} `))
    const first = `${slot} status ${slotStatus.firstShredReceived} `
    expect(reader.texts.filter((text) => text.startsWith(`${slot} `))).toEqual(
      expected.filter((text) => !text.startsWith(first)),
    )
  })

  it('finds that it was of another block, and forgets that slot', () => {
    const updates = chainOf()
    const here = gateway()
    const slot = 1010
    const end = updates.findIndex((one) => one.slot === slot && one.kind === 'blockMeta')
    for (const update of updates.slice(0, end)) here.publish(update)
    const meta = updates[end]!
    here.publish({ ...meta, blockhash: 'another' } as SolanaUpdate)
    const at = here.published.position(0)
    const there = gateway()
    for (const update of updates) there.publish(update)
    const reader = resume(there, at)
    reader.read()
    expect(reader.conflicts).toEqual([slot])
  })

  it.each([['nothing'], ['all']])(
    'repeats nothing of a slot that another gateway took back, and stated %s of again',
    (stated) => {
      const updates = chainOf()
      const slot = 1_006
      const isHere = (one: SolanaUpdate) => one.slot === slot
      const here = gateway()
      const confirmed = updates.findIndex(
        (one) => isHere(one) && one.kind === 'slot' && one.status === slotStatus.confirmed,
      )
      for (const update of updates.slice(0, confirmed + 1)) here.publish(update)
      const at = here.published.position(0)
      const there = gateway()
      for (const update of updates) {
        if (isHere(update) && update.kind === 'block') {
          const items = updates.filter((one) => isHere(one) && isItem(one))
          const restated = stated === 'all' ? items : []
          const moment = { slot, createdAtMs: update.createdAtMs }
          there.publish(retractionUpdate(moment, { bank: 1, reason: 'fork', restated }))
        }
        there.publish(update)
      }
      const reader = resume(there, at)
      reader.read()
      const again = reader.texts.filter((text) => text.startsWith(`${slot} `))
      expect(again).toEqual([`${slot} status ${slotStatus.finalized} 1005`])
    },
  )

  it('is not over while the gateway has less than what was passed', () => {
    const updates = chainOf()
    const here = gateway()
    for (const update of updates) here.publish(update)
    const at = here.published.position(0)
    const there = gateway()
    for (const update of updates.slice(0, updates.length >> 1)) there.publish(update)
    const reader = resume(there, at)
    reader.read()
    expect(reader.texts).toEqual([])
    expect(reader.resumption.isOver(there.published)).toBe(false)
    for (const update of updates.slice(updates.length >> 1)) there.publish(update)
    reader.read()
    expect(reader.texts).toEqual([])
    expect(reader.resumption.isOver(there.published)).toBe(true)
  })

  it('of a later version is none', () => {
    expect(decodePosition(JSON.stringify({ v: 2, floor: 3 }))).toBeNull()
  })
})

function namesIn({ floor, slots: states, parts }: Position): string[] {
  const names = parts.flatMap(({ slot, names, count }) =>
    names.slice(0, count).map((name) => `${slot} ${name}`),
  )
  return [`floor ${floor}`, ...states.map((state) => JSON.stringify(state)), ...names]
}
