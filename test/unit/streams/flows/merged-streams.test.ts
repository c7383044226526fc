// Several nodes' streams of one chain through the slot tracker: they lag, are cut, replay, replace
// banks and are on other banks. What is confirmed must be the winning bank as one node sent it.
import { describe, expect, it } from 'vitest'
import { silentLog } from '../../../../src/base/telemetry/log.ts'
import { accountUpdate, slotUpdate } from '../../../../src/chain/solana/received-batch.ts'
import {
  type SlotStatus,
  type SolanaUpdate,
  slotStatus,
} from '../../../../src/chain/solana/updates.ts'
import { SolanaUpstream } from '../../../../src/streams/flows/solana-upstream.ts'
import { openSolanaHub } from '../../../../src/streams/geyser/hub.ts'
import { caseCount } from '../../../testkit/case-count.ts'
import { batchFrom, messageOf } from '../../../testkit/geyser-messages.ts'
import { randomOf, SyntheticSolana } from '../../../testkit/synthetic-solana.ts'

const seeds = Number(process.env.SLUICE_SEEDS ?? caseCount(6, 25))
const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex')
const isItem = ({ kind }: SolanaUpdate) =>
  kind === 'account' || kind === 'transaction' || kind === 'entry'
const isCounted = ({ kind }: SolanaUpdate) => kind === 'transaction' || kind === 'entry'
const isStatus = (update: SolanaUpdate, status: SlotStatus) =>
  update.kind === 'slot' && update.status === status

/** The same for every node that sends it. */
function nameOf(update: SolanaUpdate): string {
  if (update.kind === 'transaction') return `t${hex(update.signature)}`
  if (update.kind === 'entry') return `e${hex(update.body)}`
  if (update.kind === 'blockMeta') return `m${update.blockhash}`
  if (update.kind !== 'account') return ''
  const { pubkey, txnSignature, data, lamports } = update
  const by = txnSignature === null ? `${lamports} ${hex(data)}` : hex(txnSignature)
  return `a${hex(pubkey)} ${by}`
}

/** The update with the write versions and times of a node. */
function sentBy(node: number, update: SolanaUpdate): SolanaUpdate {
  const moment = { slot: update.slot, createdAtMs: update.createdAtMs + node }
  if (update.kind !== 'account') return { ...update, ...moment }
  const writeVersion = update.writeVersion + BigInt(1_000 * node)
  return accountUpdate(moment, { ...update, writeVersion })
}

const statusOf = (slot: number, status: SlotStatus, parent: number) =>
  slotUpdate({ slot, createdAtMs: 1 }, { parent, status, deadError: 'x' })

/** A hub that checks what a client sees that keys by slot and bank id. */
function open(bankSalt = 'salt') {
  const hub = openSolanaHub({ replaySlots: 150, replayBytesMax: 1e9 })
  const disputes: string[] = []
  const sink = new SolanaUpstream(hub, {
    log: silentLog,
    bankSalt,
    disputed: (node, slot) => disputes.push(`${node} ${slot}`),
  })
  const banks = new Map<number, number>()
  const winners = new Map<number, Set<number>>()
  const counts = new Map<string, number>()
  const retracted = new Set<string>()
  const statuses: string[] = []
  /** Ids of all banks, by slot. */
  const created = new Map<number, Set<number>>()
  /** Bodies of the items and the meta at confirmed and finalized. */
  const content = [[], new Map<number, string[]>(), new Map<number, string[]>()] as const
  /** What a client holds at processed that applies sends and retractions, by slot. */
  const held = new Map<number, string[]>()
  const take = (commitment: 0 | 1 | 2, update: SolanaUpdate): void => {
    const { kind, slot } = update
    if (kind === 'retraction') {
      retracted.add(`${slot} ${update.bank}`)
      held.delete(slot)
      for (const one of update.restated) take(0, one)
      return
    }
    if (kind === 'slot') {
      if (commitment !== 0) return
      statuses.push(`${slot} ${update.status}`)
      if (update.status === slotStatus.createdBank) {
        banks.set(slot, update.bank!)
        created.set(slot, (created.get(slot) ?? new Set()).add(update.bank!))
      }
      if (update.status === 1 || update.status === 2)
        winners.set(slot, (winners.get(slot) ?? new Set()).add(update.bank!))
      return
    }
    if (commitment !== 0) {
      if (kind === 'block') return
      const bodies = content[commitment].get(slot) ?? []
      bodies.push(hex(update.body))
      content[commitment].set(slot, bodies)
      return
    }
    if (kind === 'block') return
    held.set(slot, [...(held.get(slot) ?? []), nameOf(update)])
    if (kind === 'blockMeta') expect(update.bank).toBe(banks.get(slot))
    if (!isItem(update)) return
    const name = `${slot} ${banks.get(slot)} ${nameOf(update)}`
    counts.set(name, (counts.get(name) ?? 0) + 1)
  }
  hub.listen(take)
  return { sink, retracted, statuses, created, content, held, winners, counts, disputes }
}

type Way = 'plain' | 'handover' | 'dead' | 'switch' | 'untold'

/** A slot as a node sends it: with another bank before the one that wins, or plain. */
function slotOf(
  slot: readonly SolanaUpdate[],
  way: Way,
  random: () => number,
  other: readonly SolanaUpdate[],
): SolanaUpdate[] {
  if (way === 'plain') return [...slot]
  const { slot: number } = slot[0]!
  const items = other.filter(isItem)
  const at = slot.findIndex((one) => isStatus(one, slotStatus.createdBank))
  const [before, created, after] = [slot.slice(0, at), slot[at]!, slot.slice(at + 1)]
  const parent = way === 'handover' ? number - 2 : number - 1
  const begun = statusOf(number, slotStatus.createdBank, parent)
  if (way === 'switch' || way === 'untold') {
    const meta = other.find(({ kind }) => kind === 'blockMeta')!
    const frozen = [...items, meta, statusOf(number, slotStatus.processed, number - 1)]
    // Its hash alone may tell that the next block is another one.
    return [...before, begun, ...frozen, ...(way === 'switch' ? [created] : []), ...after]
  }
  const received = items.slice(0, Math.floor(random() * items.length) + 1)
  const late = received.filter(isCounted).slice(Math.floor(random() * 4))
  const early = received.filter((one) => !late.includes(one))
  const died = way === 'dead' ? [statusOf(number, slotStatus.dead, number - 1)] : []
  return [...before, begun, ...early, ...died, created, ...late, ...after]
}

/** What a node that is on a fork of its own sends of a slot: it confirms nothing. */
function forkedOf(
  number: number,
  other: readonly SolanaUpdate[],
  isOtherParent: boolean,
): SolanaUpdate[] {
  const parent = number - (isOtherParent ? 2 : 1)
  const created = statusOf(number, slotStatus.createdBank, parent)
  return [created, ...other.filter((one) => isItem(one) || one.kind === 'blockMeta')]
}

const ways: readonly Way[] = ['handover', 'dead', 'switch', 'untold']
const slotsOf = (count: number, options: object) => {
  const chain = new SyntheticSolana({ finalizedAfter: 5, ...options })
  return Array.from({ length: count }, () => chain.next())
}

/** Streams of nodes, and whether their connections are open. */
class Node {
  readonly updates: readonly SolanaUpdate[]
  at = 0
  isOpen = false
  readonly #number: number
  readonly #sink: SolanaUpstream

  constructor(number: number, sink: SolanaUpstream, updates: readonly SolanaUpdate[]) {
    this.#number = number
    this.#sink = sink
    this.updates = updates.filter(({ kind }) => kind !== 'block').map((one) => sentBy(number, one))
  }

  open(): void {
    const from = this.#sink.resumeFrom()
    this.#sink.opened(from ?? 0, this.#number, `node${this.#number}`)
    this.isOpen = true
    this.#send(this.updates.slice(0, this.at).filter(({ slot }) => slot >= (from ?? 0)))
  }

  close(): void {
    this.isOpen = false
    this.#sink.closed(this.#number)
  }

  send(count: number): void {
    const next = this.updates.slice(this.at, this.at + count)
    this.at += next.length
    if (this.isOpen) this.#send(next)
  }

  get isDone(): boolean {
    return this.at >= this.updates.length
  }

  #send(updates: readonly SolanaUpdate[]): void {
    for (let at = 0; at < updates.length; at += 5)
      this.#sink.batch(
        batchFrom(updates.slice(at, at + 5).map((one) => messageOf(one))),
        this.#number,
      )
  }
}

/** The slot's bodies of items and meta, as each node sends them. */
const bodiesOf = (slot: readonly SolanaUpdate[], nodes: number) =>
  Array.from({ length: nodes }, (_, node) =>
    slot
      .filter((one) => isItem(one) || one.kind === 'blockMeta')
      .map((one) => {
        const sent = sentBy(node, one)
        return sent.kind === 'block' ? '' : hex(sent.body)
      })
      .join(),
  )

/** Up to four nodes of one chain: they lag, stall, are cut, and one may be on a fork of its own. */
function runScript(seed: number) {
  const random = randomOf(seed)
  const below = (limit: number) => Math.floor(random() * limit)
  const slots = slotsOf(14, { seed, accounts: 12, dataBytes: 40 })
  const others = slots.map(
    ([first], at) => slotsOf(1, { seed: seed * 100 + at, firstSlot: first!.slot })[0]!,
  )
  const shared = slots.map((_, at) => (at < 2 || random() > 1 / 3 ? 'plain' : ways[below(4)]!))
  const count = 2 + below(3)
  const view = open()
  // From there on the last node is on a fork of its own, in some runs.
  const forkedAt = random() < 0.4 ? 3 + below(8) : slots.length
  const nodes = Array.from({ length: count }, (_, number) => {
    const updates = slots.flatMap((slot, at) => {
      if (number === count - 1 && at >= forkedAt)
        return forkedOf(slot[0]!.slot, others[at]!, random() < 0.5)
      // A node may have learnt of the new parent before it began, or be alone with a version.
      const isKnown = random() < 0.3
      const own: Way = at > 2 && random() < 0.15 ? ways[2 + below(2)]! : 'plain'
      const way = shared[at] === 'plain' ? own : isKnown ? 'plain' : shared[at]!
      return slotOf(slot, way, random, others[at]!)
    })
    return new Node(number, view.sink, updates)
  })
  for (const node of nodes) node.open()
  // The first one is not cut near its end: statuses lost in a break are derived from later ones.
  const calm = nodes[0]!.updates.length * 0.7
  for (let stalled = -1; !nodes.every((node) => node.isDone); ) {
    if (random() < 0.05) stalled = below(count)
    const at = below(count)
    const node = nodes[at]!
    if (at === stalled && !nodes.every((one, index) => index === at || one.isDone)) continue
    if (random() < 0.06 && node.isOpen && (at > 0 || node.at < calm)) node.close()
    else if (!node.isOpen && random() < 0.5) node.open()
    node.send(1 + below(30))
  }
  return { view, slots, others, count }
}

function checkScript(seed: number): void {
  const { view, slots, others, count } = runScript(seed)
  for (const commitment of [1, 2] as const)
    for (const [slot, bodies] of view.content[commitment]) {
      const sent = bodiesOf(slots[slot - 1_000]!, count)
      expect(sent.indexOf(bodies.join()), `seed ${seed}, slot ${slot}`).not.toBe(-1)
    }
  for (const [at, slot] of slots.entries()) {
    const where = `seed ${seed}, slot ${slot[0]!.slot}`
    const most = new Map<string, number>()
    for (const one of [...slot, ...others[at]!].filter(isItem))
      most.set(nameOf(one), (most.get(nameOf(one)) ?? 0) + 1)
    // Each item once per bank, or as often as the bank has it.
    for (const [name, times] of view.counts)
      if (name.startsWith(`${slot[0]!.slot} `))
        expect(times, `${where}, ${name}`).toBeLessThanOrEqual(
          most.get(name.split(' ').slice(2).join(' '))!,
        )
    if (!view.content[1].has(slot[0]!.slot)) continue
    const block = slot.filter((one) => isItem(one) || one.kind === 'blockMeta').map(nameOf)
    expect(view.held.get(slot[0]!.slot)!.toSorted(), where).toEqual(block.toSorted())
  }
  expect(view.content[1].size, `seed ${seed}`).toBe(slots.length - 1)
  for (const [slot, ids] of view.winners) {
    expect(ids.size, `seed ${seed}, slot ${slot}`).toBe(1)
    expect(view.retracted.has(`${slot} ${[...ids][0]}`), `seed ${seed}, slot ${slot}`).toBe(false)
  }
  expect(view.sink.counts(), `seed ${seed}`).toMatchObject({ gapSlots: 0, incompleteBlocks: 0 })
}

describe('merged streams', () => {
  it(`confirm the winner as one node sent it, over ${seeds} seeds`, () => {
    for (let seed = 1; seed <= seeds; seed++) checkScript(seed)
  })

  it('show a client one winner per slot over 1,000 failovers', () => {
    const slots = slotsOf(120, { seed: 7, accounts: 6, dataBytes: 8, transactionsPerSlot: 2 })
    const view = open()
    const random = randomOf(7)
    const sent = slots.map((slot, at) => {
      const other = slotsOf(1, { seed: 900 + at, firstSlot: slot[0]!.slot })[0]!
      return slotOf(slot, at % 3 === 2 ? ways[((at / 3) % 2) | 0]! : 'plain', random, other)
    })
    const nodes = [0, 1].map((number) => new Node(number, view.sink, sent.flat()))
    let failovers = 0
    for (const node of nodes) node.open()
    const end = nodes[0]!.updates.length - 60
    while (!nodes[0]!.isDone) {
      const node = nodes[failovers % 2]!
      if (node.at < end && failovers < 1_000) {
        node.close()
        node.open()
        failovers++
      }
      for (const one of nodes) one.send(failovers < 1_000 ? 1 : 30)
    }
    expect(failovers).toBe(1_000)
    expect(view.winners.size).toBe(slots.length - 1)
    for (const [slot, ids] of view.winners) {
      expect(ids.size, `slot ${slot}`).toBe(1)
      expect(view.retracted.has(`${slot} ${[...ids][0]}`), `slot ${slot}`).toBe(false)
    }
    expect(view.sink.counts()).toMatchObject({ gapSlots: 0, incompleteBlocks: 0 })
  })

  it('publish a slot as it comes when one stream stops inside of it', () => {
    const slots = slotsOf(4, { seed: 3 })
    const view = open()
    const [stalled, other] = [0, 1].map((number) => new Node(number, view.sink, slots.flat()))
    for (const node of [stalled!, other!]) node.open()
    const inside = slots.flat().filter(({ kind }) => kind !== 'block').length / 2
    stalled!.send(inside)
    let newest = Math.max(...stalled!.updates.slice(0, inside).map(({ slot }) => slot))
    while (!other!.isDone) {
      other!.send(1)
      newest = Math.max(newest, other!.updates[other!.at - 1]!.slot)
      expect(view.sink.newestSlot()).toBe(newest)
    }
    expect(view.content[1].size).toBe(3)
    expect(view.sink.counts()).toMatchObject({ gapSlots: 0, incompleteBlocks: 0, replacedBanks: 0 })
    const arrivals = view.sink.arrivals()
    expect(arrivals.get('node0')!.first).toBeGreaterThan(0)
    expect(arrivals.get('node1')!.first).toBeGreaterThan(0)
  })

  it('complete a block of which no stream has everything', () => {
    // It is waited for until the sixth slot after it.
    const [slot, ...next] = slotsOf(8, { seed: 4 }) as [SolanaUpdate[], ...SolanaUpdate[][]]
    const items = slot.filter(isItem)
    const view = open()
    const without = (missing: SolanaUpdate) => slot.filter((one) => one !== missing)
    const counted = items.filter(isCounted)
    const nodes = [counted[1]!, counted[3]!].map(
      (missing, number) => new Node(number, view.sink, [...without(missing), ...next.flat()]),
    )
    for (const node of nodes) node.open()
    for (const node of nodes) node.send(slot.length - 2)
    for (const node of nodes) node.send(1_000)
    expect(view.content[1].get(1_000)!.length).toBe(items.length + 1)
    expect(view.sink.counts().incompleteBlocks).toBe(0)
  })

  it('leave out a fork that one sends after another has finalized past it', () => {
    const slots = slotsOf(12, { seed: 7 })
    const [fork] = slotsOf(1, { seed: 8, firstSlot: 1_003 }) as [SolanaUpdate[]]
    // The chain without slot 1003: the parent of 1004 is 1002.
    const chain = slots.flat().filter(({ slot }) => slot !== 1_003)
    const onto = chain.map((one) => {
      if (one.slot !== 1_004) return one
      if (one.kind === 'blockMeta') return { ...one, parentSlot: 1_002 }
      return one.kind === 'slot' ? statusOf(1_004, one.status, 1_002) : one
    })
    const view = open()
    const [ahead, behind] = [onto, fork].map((sent, at) => new Node(at, view.sink, sent))
    for (const node of [ahead!, behind!]) node.open()
    ahead!.send(1_000)
    expect(view.content[2].has(1_005)).toBe(true)
    behind!.send(1_000)
    expect(view.held.has(1_002)).toBe(true)
    expect(view.held.has(1_003)).toBe(false)
  })

  it('confirm the block of the node that has all of it, where another one has less', () => {
    const slots = slotsOf(3, { seed: 7 })
    const [other] = slotsOf(1, { seed: 9, firstSlot: 1_001 }) as [SolanaUpdate[]]
    const isLast = (one: SolanaUpdate) => one.kind === 'transaction' && one.index === 5
    const slot = slots[1]!
    const at = 1 + slot.findIndex((one) => isStatus(one, slotStatus.createdBank))
    const begun = statusOf(1_001, slotStatus.createdBank, 999)
    // The transaction of the bank before comes late in the place of the last one, which is later.
    const rest = slot.slice(at).filter((one) => !isLast(one))
    const sent = [begun, ...slot.slice(0, at), ...other.filter(isLast), ...rest]
    const view = open()
    const [ahead, behind] = [0, 1].map((number) => {
      const updates = [...slots[0]!, ...sent, ...slot.filter(isLast), ...slots[2]!]
      return new Node(number, view.sink, updates)
    })
    for (const node of [ahead!, behind!]) node.open()
    const own = ahead!.updates.findLastIndex((one) => one.slot === 1_001 && isLast(one))
    ahead!.send(own + 1)
    behind!.send(own)
    ahead!.send(1_000)
    expect(view.content[1].get(1_001)!.toSorted()).toEqual(
      bodiesOf(slot, 1)[0]!.split(',').toSorted(),
    )
  })

  it('leave out what a node that is behind has before the first slot of the others', () => {
    const slots = slotsOf(6, { seed: 7 })
    const view = open()
    const nodes = [slots.slice(3), slots].map((sent, number) => {
      view.sink.opened(null, number, `node${number}`)
      const node = new Node(number, view.sink, sent.flat())
      node.isOpen = true
      return node
    })
    for (const node of nodes) node.send(1_000)
    expect([...view.held.keys()]).toEqual([1_003, 1_004, 1_005])
  })

  it('tell nothing more of a slot before their first one, once it or a later one is final', () => {
    const slots = slotsOf(12, { seed: 7 })
    const view = open()
    const [ahead, behind] = [slots.slice(8), slots].map((sent, number) => {
      view.sink.opened(null, number, `node${number}`)
      const node = new Node(number, view.sink, sent.flat())
      node.isOpen = true
      return node
    })
    ahead!.send(1_000)
    const told = view.statuses.splice(0)
    expect(told).toContain('1006 2')
    behind!.send(1_000)
    // Neither that one was processed nor that others were finalized.
    expect(view.statuses.filter((text) => !text.startsWith('1007 '))).toEqual([])
  })

  it('have the block of a slot that died before they began and was repaired after', () => {
    const slots = slotsOf(4, { seed: 7 })
    const isLast = (one: SolanaUpdate) => one.kind === 'transaction' && one.index === 5
    const [first, slot, ...rest] = slots as [SolanaUpdate[], ...SolanaUpdate[][]]
    const died = statusOf(1_001, slotStatus.dead, 1_000)
    const repaired = [...slot!.filter((one) => !isLast(one)), ...slot!.filter(isLast)]
    const view = open()
    view.sink.opened(null, 0, 'node0')
    const node = new Node(0, view.sink, [...first, died, ...repaired, ...rest.flat()])
    node.isOpen = true
    node.send(1_000)
    expect(view.sink.counts().incompleteBlocks).toBe(0)
    expect(view.content[1].get(1_001)!.toSorted()).toEqual(
      bodiesOf(slot!, 1)[0]!.split(',').toSorted(),
    )
  })

  it('bring back no fork that has lost, when a node is cut', () => {
    const slots = slotsOf(12, { seed: 7 })
    const chain = slots.flat().filter(({ slot }) => slot !== 1_003)
    const onto = chain.map((one) => {
      if (one.slot !== 1_004) return one
      if (one.kind === 'blockMeta') return { ...one, parentSlot: 1_002 }
      return one.kind === 'slot' ? statusOf(1_004, one.status, 1_002) : one
    })
    // Dead at both, after other items.
    const forks = [8, 9].map((seed) => {
      const [fork] = slotsOf(1, { seed, firstSlot: 1_003 }) as [SolanaUpdate[]]
      return [...fork.slice(0, 12), statusOf(1_003, slotStatus.dead, 1_002)]
    })
    const view = open()
    const nodes = forks.map((fork, number) => {
      const before = onto.filter(({ slot }) => slot < 1_003)
      const after = onto.filter(({ slot }) => slot > 1_003)
      return new Node(number, view.sink, [...before, ...fork, ...after])
    })
    for (const node of nodes) node.open()
    while (!nodes[0]!.isDone) for (const node of nodes) node.send(7)
    expect(view.content[2].has(1_005)).toBe(true)
    expect(view.held.has(1_003)).toBe(false)
    for (const node of nodes) {
      node.close()
      node.open()
      expect(view.held.has(1_003)).toBe(false)
    }
  })

  it('name the node that confirms another block than the set has', () => {
    const slots = slotsOf(4, { seed: 5 })
    const others = slotsOf(4, { seed: 6 })
    const view = open()
    const nodes = [slots, others].map((sent, number) => new Node(number, view.sink, sent.flat()))
    for (const node of nodes) node.open()
    for (const node of nodes) node.send(1_000)
    expect(view.disputes).toEqual(['node1 1000', 'node1 1001', 'node1 1002'])
    expect(view.sink.arrivals().get('node1')).toMatchObject({ disputed: 3 })
    expect(view.content[1].get(1_001)!.join()).toBe(bodiesOf(slots[1]!, 1)[0])
  })
})

describe('a fork that another node confirms', () => {
  it('takes the place of the published one from its first slot on', () => {
    const forks = [5, 6].map((seed) =>
      slotsOf(4, { seed })
        .flat()
        .filter(
          (one) => !isStatus(one, slotStatus.confirmed) && !isStatus(one, slotStatus.finalized),
        ),
    )
    forks[1]!.push(statusOf(1_003, slotStatus.confirmed, 1_002))
    const view = open()
    const nodes = forks.map((sent, number) => new Node(number, view.sink, sent))
    for (const node of nodes) node.open()
    for (const node of nodes) node.send(1_000)
    const slots = [...view.retracted].map((name) => Number.parseInt(name, 10))
    expect(slots).toEqual([1_000, 1_001, 1_002, 1_003])
    expect([...view.content[1].keys()]).toEqual(slots)
    for (const ids of view.winners.values()) expect(ids.size).toBe(1)
  })
})

describe('bank ids', () => {
  const created = (slot: readonly SolanaUpdate[]) =>
    slot.findIndex((one) => isStatus(one, slotStatus.createdBank))

  it('are of one bank while parents, entries and signatures agree, else of two', () => {
    const [slot] = slotsOf(1, { seed: 1 }) as [SolanaUpdate[]]
    const [other] = slotsOf(1, { seed: 2 }) as [SolanaUpdate[]]
    const begun = slot.slice(0, created(slot) + 1)
    const forked = [...slot.slice(0, 12), ...other.filter(isItem)]
    for (const [second, ids] of [
      [slot, 1],
      [forked, 2],
    ] as const) {
      const view = open()
      const nodes = [slot, second].map((sent, number) => new Node(number, view.sink, sent))
      for (const node of nodes) node.open()
      nodes[0]!.send(begun.length + 12)
      nodes[1]!.send(1_000)
      // The first stream is gone: what the other one has is published.
      nodes[0]!.close()
      expect(view.created.get(1_000)!.size, `${ids}`).toBe(ids)
    }
  })

  it('of two hubs that saw different banks differ, and are of neither node', () => {
    const [slot] = slotsOf(1, { seed: 1 }) as [SolanaUpdate[]]
    const [other] = slotsOf(1, { seed: 2 }) as [SolanaUpdate[]]
    const ids = [slot, other].map((sent) => {
      const hub = openSolanaHub({ replaySlots: 150, replayBytesMax: 1e9 })
      const seen = new Set<number>()
      hub.listen((_, update) => {
        if (update.kind === 'blockMeta') seen.add(update.bank!)
      })
      const sink = new SolanaUpstream(hub, { log: silentLog })
      new Node(0, sink, sent).open()
      const node = new Node(0, sink, sent)
      node.open()
      node.send(1_000)
      return [...seen]
    })
    expect(ids.flat()).toHaveLength(2)
    expect(new Set(ids.flat()).size).toBe(2)
  })

  it('are the same for gateways that read one stream', () => {
    const slots = slotsOf(3, { seed: 9 })
    const other = slotsOf(1, { seed: 10, firstSlot: 1_001 })[0]!
    slots[1] = slotOf(slots[1]!, 'handover', randomOf(1), other)
    const [one, two] = ['salt', 'salt'].map((salt) => {
      const view = open(salt)
      const node = new Node(0, view.sink, slots.flat())
      node.open()
      node.send(1_000)
      return [...view.created].map(([slot, ids]) => [slot, ...ids])
    })
    expect(one).toEqual(two)
    expect(one!.find(([slot]) => slot === 1_001)).not.toHaveLength(2)
  })

  it('stay when the same bank is replayed by another node', () => {
    const slots = slotsOf(3, { seed: 9 })
    const view = open()
    const nodes = [0, 1].map((number) => new Node(number, view.sink, slots.flat()))
    nodes[0]!.open()
    nodes[0]!.send(30)
    nodes[0]!.close()
    nodes[1]!.at = 40
    nodes[1]!.open()
    nodes[1]!.send(1_000)
    for (const ids of view.created.values()) expect(ids.size).toBe(1)
    expect(view.retracted.size).toBe(0)
  })
})
