// A model client that applies what is sent at processed and what is retracted: in every slot it ends
// with exactly the block that is confirmed, and with nothing of the others.
import { createRequire } from 'node:module'
import { describe, expect, it } from 'vitest'
import { encodeBase58 } from '../../../../src/chain/solana/base58.ts'
import { accountUpdate, slotUpdate } from '../../../../src/chain/solana/received-batch.ts'
import {
  type RetractionUpdate,
  type SolanaUpdate,
  slotStatus,
} from '../../../../src/chain/solana/updates.ts'
import { withRetractions } from '../../../../src/streams/geyser/filter-set.ts'
import { caseCount } from '../../../testkit/case-count.ts'
import { batchFrom, messageOf } from '../../../testkit/geyser-messages.ts'
import {
  apply,
  applyTexts,
  contentOf,
  isItem,
  isStatus,
  itemsOf,
} from '../../../testkit/model-client.ts'
import { randomOf, SyntheticSolana } from '../../../testkit/synthetic-solana.ts'
import { type VoidChain, voidChain, withVoidBank } from '../../../testkit/void-banks.ts'
import {
  codec,
  filtersOfAll,
  ownersOf,
  replayOf,
  VoidStage,
} from '../../../testkit/void-readers.ts'

const Yellowstone = createRequire(import.meta.url)('@triton-one/yellowstone-grpc')
const seeds = Number(process.env.SLUICE_SEEDS ?? caseCount(5, 100))
const chains = new Map<number, VoidChain>()

/** Making a chain costs more than reading it. */
function chainOf(seed: number): VoidChain {
  const chain = chains.get(seed) ?? voidChain(seed)
  chains.set(seed, chain)
  return chain
}

describe('a model client of a stream', () => {
  it(`holds exactly the confirmed blocks, over ${seeds} seeds`, async () => {
    const reasons = new Set<string>()
    for (let seed = 1; seed <= seeds; seed++) {
      const { sent, line } = chainOf(seed)
      const stage = new VoidStage()
      const filters = withRetractions(filtersOfAll(0))
      const [processed, confirmed] = [stage.stream(filters), stage.stream(filtersOfAll(1))]
      stage.sink.opened(null)
      stage.send(sent)
      await stage.flush()
      const held = apply(processed)
      for (const reason of held.reasons) reasons.add(reason)
      expect([...held.slots.keys()].toSorted(), `slots of seed ${seed}`).toEqual([...line.keys()])
      expect(contentOf(held), `seed ${seed}`).toEqual(contentOf(apply(confirmed)))
      for (const [slot, marks] of held.slots) {
        expect(marks.filter(isItem).toSorted(), `${slot} of seed ${seed}`).toEqual(
          itemsOf(line.get(slot)!).toSorted(),
        )
        const { createdBank, processed: done } = slotStatus
        expect(marks.filter(isStatus)).toEqual([`3 ${createdBank}`, `3 ${done}`])
      }
      // Of the kept updates a replay has no CREATED_BANK, else the same.
      const replayed = apply(await replayOf(stage.hub, filters, 1_000))
      expect(contentOf(replayed), `replay of seed ${seed}`).toEqual(contentOf(held))
      expect(replayed.reasons).toEqual(held.reasons)
      stage.stop()
    }
    expect([...reasons].toSorted()).toEqual(['dead', 'fork', 'handover', 'migration'])
  })

  it(`holds what is confirmed wherever connections break, over ${seeds} seeds`, async () => {
    for (let seed = 1; seed <= seeds; seed++) {
      const { sent } = chainOf(seed)
      const random = randomOf(seed)
      const stage = new VoidStage()
      const processed = stage.stream(withRetractions(filtersOfAll(0)))
      const confirmed = stage.stream(filtersOfAll(1))
      // The end is not interrupted: statuses lost in a break are derived from later ones.
      const calm = Math.floor(sent.length * 0.7)
      stage.sink.opened(null)
      for (let at = 0; at < sent.length; ) {
        const cut = at > calm ? sent.length : at + 1 + Math.floor(random() * 160)
        stage.send(sent.slice(at, cut))
        at = Math.min(cut, sent.length)
        if (at === sent.length) break
        const from = stage.sink.resumeFrom() ?? 0
        stage.sink.opened(from)
        stage.send(sent.slice(0, at).filter(({ slot }) => slot >= from))
      }
      await stage.flush()
      expect(contentOf(apply(processed)), `seed ${seed}`).toEqual(contentOf(apply(confirmed)))
      stage.stop()
    }
  })
})

describe('a model client of a damaged stream', () => {
  const after = { firstSlot: 1_004, confirmedAfter: 1, finalizedAfter: 4 }
  const held = async (send: (stage: VoidStage) => void) => {
    const stage = new VoidStage()
    const processed = stage.stream(withRetractions(filtersOfAll(0)))
    const confirmed = stage.stream(filtersOfAll(1))
    stage.sink.opened(null)
    send(stage)
    await stage.flush()
    stage.stop()
    const found = apply(processed)
    const expected = contentOf(apply(confirmed))
    const last = expected.at(-1)![0]
    expect(last).toBeGreaterThan(1_006)
    expect(contentOf(found).filter(([slot]) => slot <= last)).toEqual(expected)
    return found.reasons
  }
  const next = (chain: SyntheticSolana, slots: number) =>
    Array.from({ length: slots }, () => chain.next()).flat()

  it('holds the meta alone of a slot whose second bank is incomplete', async () => {
    const slots = next(new SyntheticSolana({ seed: 7, finalizedAfter: 6 }), 4)
    const last = slots.filter(({ slot }) => slot === 1_003)
    const missing = last.findLast(({ kind }) => kind === 'transaction')
    const replaced = withVoidBank(last, 'handover', randomOf(2)).filter((one) => one !== missing)
    const reasons = await held((stage) => {
      stage.send([...slots.filter(({ slot }) => slot < 1_003), ...replaced])
      stage.send(next(new SyntheticSolana({ seed: 8, ...after }), 9))
    })
    expect(reasons).toEqual(['handover', 'handover'])
  })

  it('holds the block that its last transaction puts right, after it was processed', async () => {
    const slots = next(new SyntheticSolana({ seed: 7, finalizedAfter: 6 }), 4)
    const last = slots.filter(({ slot }) => slot === 1_003)
    const isLast = (one: SolanaUpdate) => one.kind === 'transaction' && one.index === 5
    const own = last.filter(isLast)
    // The first bank's transaction of the same index comes in its place.
    const other = next(new SyntheticSolana({ seed: 9, firstSlot: 1_003 }), 1).filter(isLast)
    const moment = { slot: 1_003, createdAtMs: 1 }
    const begun = slotUpdate(moment, { parent: 1_001, status: slotStatus.createdBank })
    const at = last.findIndex(({ kind }) => kind === 'account')
    const rest = last.slice(at).filter((one) => !isLast(one))
    const reasons = await held((stage) => {
      stage.send([...slots.filter(({ slot }) => slot < 1_003), begun])
      stage.send([...last.slice(0, at), ...other, ...rest, ...own])
      stage.send(next(new SyntheticSolana({ seed: 8, ...after }), 5))
    })
    expect([own.length, other.length]).toEqual([1, 1])
    expect(reasons).toEqual(['handover', 'handover'])
  })

  it('holds the new blocks of a chain that was set back without a message', async () => {
    const reasons = await held((stage) => {
      stage.send(next(new SyntheticSolana({ seed: 7, confirmedAfter: 3, finalizedAfter: 9 }), 6))
      stage.send(next(new SyntheticSolana({ ...after, seed: 8, firstSlot: 1_003 }), 6))
    })
    expect(reasons).toEqual(['migration', 'migration', 'migration'])
  })

  it('holds the version of the node that it was resumed from', async () => {
    const reasons = await held((stage) => {
      stage.send(next(new SyntheticSolana({ seed: 7, finalizedAfter: 6 }), 5))
      stage.sink.opened(1_004)
      stage.send(next(new SyntheticSolana({ seed: 8, ...after }), 5))
    })
    expect(reasons).toEqual(['fork'])
  })
})

describe('a model client of two streams, of writes that changed something', () => {
  const pubkey = new Uint8Array(32).fill(7)
  const write = (slot: number, lamports: bigint) => {
    const account = { pubkey, lamports, owner: pubkey, executable: false, rentEpoch: 0n }
    const rest = { data: new Uint8Array(0), writeVersion: BigInt(slot), txnSignature: null }
    return accountUpdate({ slot, createdAtMs: 1 }, { ...account, ...rest })
  }
  const isCreated = (one: SolanaUpdate) =>
    one.kind === 'slot' && one.status === slotStatus.createdBank
  /** With a write of the account in each of these slots. */
  const written = (updates: readonly SolanaUpdate[], lamports: ReadonlyMap<number, bigint>) =>
    updates.flatMap((one) => {
      const own = isCreated(one) ? lamports.get(one.slot) : undefined
      return own === undefined ? [one] : [one, write(one.slot, own)]
    })

  it('holds what a slot has changed since a bank that its parent was given later', async () => {
    const chain = new SyntheticSolana({ seed: 7, confirmedAfter: 3, finalizedAfter: 9 })
    const updates = written(
      Array.from({ length: 9 }, () => chain.next()).flat(),
      // 1003 is as 1001 was, but not as its parent was.
      new Map([1n, 2n, 1n].map((lamports, at) => [1_001 + at, lamports])),
    )
    const other = new SyntheticSolana({ seed: 9, firstSlot: 1_002 }).next()
    const stage = new VoidStage()
    const changed = stage.stream(withRetractions(filtersOfAll(0, {}, { diffOnly: true })))
    const plain = stage.stream(withRetractions(filtersOfAll(0)))
    const confirmed = stage.stream(filtersOfAll(1))
    const send = (stream: number, own: readonly SolanaUpdate[]) => {
      const sent = own.filter(({ kind }) => kind !== 'block').map((one) => messageOf(one))
      stage.sink.batch(batchFrom(sent), stream)
    }
    const at = updates.findIndex(({ slot }) => slot === 1_002)
    const next = updates.findIndex((one) => isCreated(one) && one.slot === 1_004)
    const begun = updates.findIndex((one) => isCreated(one) && one.slot === 1_002) + 1
    for (const stream of [0, 1]) stage.sink.opened(null, stream)
    for (const stream of [0, 1]) send(stream, updates.slice(0, at))
    // The first node has another bank of 1002 before, and the second one seems to have it, too.
    send(0, other)
    send(1, updates.slice(at, begun))
    send(0, updates.slice(at, next))
    send(1, updates.slice(begun))
    send(0, updates.slice(next))
    await stage.flush()
    stage.stop()
    const [held, all] = [apply(changed), apply(plain)]
    const expected = contentOf(apply(confirmed))
    const markOfWrite = (slot: number) => itemsOf([write(slot, slot === 1_002 ? 2n : 1n)])[0]
    for (const slot of [1_001, 1_002, 1_003])
      expect(held.slots.get(slot), `${slot}`).toContain(markOfWrite(slot))
    expect(expected.length).toBeGreaterThan(4)
    expect(contentOf(all).slice(0, expected.length)).toEqual(expected)
    expect(all.retracted.map((line) => line.replace(/\/\d+/, ''))).toEqual([
      '1002 fork',
      '1003 fork',
    ])
  })

  describe('holds what a slot has written, which the one before was thought to have written, too', () => {
    const slots = (() => {
      const chain = new SyntheticSolana({ seed: 7, confirmedAfter: 2, finalizedAfter: 9 })
      return Array.from({ length: 12 }, () => chain.next())
    })()
    const lamports = new Map([
      [1_001, 1n],
      [1_003, 2n],
    ])
    const [begin, own, later] = [slots.slice(0, 2), slots[2]!, slots.slice(3)]
      .map((some) => some.flat())
      .map((some) => written(some, lamports))
    const isLast = (one: SolanaUpdate) => one.kind === 'transaction' && one.index === 5
    const isWritten = (one: SolanaUpdate) => one.kind === 'account' && one.slot === 1_003
    const child = later!.slice(0, later!.findIndex(isWritten) + 1)
    const rest = later!.slice(child.length)
    const created = own!.findIndex(isCreated) + 1
    const wrong = write(1_002, 2n)
    const late = own!.filter(isLast)
    const others = new SyntheticSolana({ seed: 9, firstSlot: 1_002 }).next().filter(isLast)
    const before = slotUpdate(own![0]!, { parent: 1_000, status: slotStatus.createdBank })
    const afterwards = own!.slice(created).filter((one) => !isLast(one))
    const meta = own!.filter(({ kind }) => kind === 'blockMeta')
    const items = afterwards.filter((one) => !meta.includes(one))

    const cases: [string, (readonly [number, readonly SolanaUpdate[]])[]][] = [
      [
        'by another node, until its last transaction comes',
        [
          [0, [...own!.slice(0, created), ...items]],
          [1, [...own!.slice(0, created), wrong]],
          [0, child],
          [0, [...late, ...meta]],
        ],
      ],
      [
        'in a bank before, until another node sends its block',
        [
          [0, [before, ...own!.slice(0, created), wrong, ...others, ...items]],
          [0, [...child, ...meta]],
          [1, own!],
        ],
      ],
      [
        'until it is confirmed without what never came',
        [
          [0, [before, ...own!.slice(0, created), wrong, ...afterwards]],
          [0, child],
        ],
      ],
    ]
    it.each(cases)('%s', async (_, steps) => {
      const stage = new VoidStage()
      const changed = stage.stream(withRetractions(filtersOfAll(0, {}, { diffOnly: true })))
      const send = (stream: number, some: readonly SolanaUpdate[]) => {
        const sent = some.filter(({ kind }) => kind !== 'block').map((one) => messageOf(one))
        stage.sink.batch(batchFrom(sent), stream)
      }
      const streams = new Set(steps.map(([stream]) => stream))
      for (const stream of streams) stage.sink.opened(null, stream)
      for (const stream of streams) send(stream, begin!)
      for (const [stream, some] of steps) send(stream, some)
      send(0, rest)
      await stage.flush()
      stage.stop()
      const { slots: held, retracted } = apply(changed)
      expect(held.get(1_001)).toContain(itemsOf([write(1_001, 1n)])[0])
      expect(held.get(1_002)).not.toContain(itemsOf([wrong])[0])
      expect(held.get(1_003)).toContain(itemsOf([write(1_003, 2n)])[0])
      expect(retracted.map((line) => line.slice(0, 4))).toContain('1003')
    })
  })
})

describe('a model client of two streams, of which one replays', () => {
  it('holds the block alone, as many items of the bank before as there were instead', async () => {
    const chain = new SyntheticSolana({ seed: 7, confirmedAfter: 2, finalizedAfter: 5 })
    const updates = Array.from({ length: 8 }, () => chain.next()).flat()
    const ofKind = (kind: string, of: readonly SolanaUpdate[]) =>
      of.find((one) => one.kind === kind)!
    const other = new SyntheticSolana({ seed: 9, firstSlot: 1_003 }).next()
    const late = [ofKind('transaction', other), ofKind('entry', other)]
    const [at, end] = [1_003, 1_004].map((slot) => updates.findIndex((one) => one.slot === slot))
    const last = updates.slice(at, end)
    const items = last.filter(({ kind }) => ['account', 'transaction', 'entry'].includes(kind))
    const missing = [ofKind('transaction', items.toReversed()), ofKind('entry', items.toReversed())]
    const begun = [1_001, 1_002].map((parent) =>
      slotUpdate({ slot: 1_003, createdAtMs: 1 }, { parent, status: slotStatus.createdBank }),
    )
    const stage = new VoidStage()
    const [processed, confirmed] = [
      stage.stream(withRetractions(filtersOfAll(0))),
      stage.stream(filtersOfAll(1)),
    ]
    const send = (stream: number, own: readonly SolanaUpdate[]) => {
      const sent = own.filter(({ kind }) => kind !== 'block').map((one) => messageOf(one))
      stage.sink.batch(batchFrom(sent), stream)
    }
    for (const stream of [0, 1]) stage.sink.opened(1_000, stream)
    for (const stream of [0, 1]) send(stream, updates.slice(0, at))
    // A replay leaves out which bank it sends: only the meta tells.
    send(0, [...late, ...items])
    send(1, [...begun, ...late, ...items.filter((one) => !missing.includes(one))])
    send(0, [...last.filter((one) => !items.includes(one) && one.kind === 'blockMeta')])
    send(0, updates.slice(end))
    await stage.flush()
    stage.stop()
    const expected = contentOf(apply(confirmed))
    expect(expected.map(([slot]) => slot)).toContain(1_003)
    expect(contentOf(apply(processed)).slice(0, expected.length)).toEqual(expected)
  })
})

describe('a gateway of a hub', () => {
  it('retracts what the hub retracts, under the same names', async () => {
    for (let seed = 1; seed <= Math.min(seeds, 30); seed++) {
      const { sent, line } = chainOf(seed)
      const [hub, gateway] = [new VoidStage(), new VoidStage()]
      const names = [hub, gateway].map((stage) => {
        const found: string[] = []
        stage.hub.listen((_, update) => {
          if (update.kind === 'retraction')
            found.push(`${update.slot}/${update.bank} ${update.reason}`)
        })
        return found
      })
      const link = hub.stream(filtersOfAll(0))
      const customer = gateway.stream(withRetractions(filtersOfAll(0)))
      hub.sink.opened(null)
      hub.send(sent)
      await hub.flush()
      gateway.sink.opened(null)
      for (const message of link.messages()) gateway.sink.batch(batchFrom([message]))
      await gateway.flush()
      expect(names[1], `seed ${seed}`).toEqual(names[0])
      const { slots } = apply(customer)
      expect([...slots.keys()].toSorted()).toEqual([...line.keys()])
      for (const [slot, marks] of slots)
        expect(marks.filter(isItem).toSorted()).toEqual(itemsOf(line.get(slot)!).toSorted())
      hub.stop()
      gateway.stop()
    }
  })
})

describe('a retraction', () => {
  const chain = chainOf(4)
  const retractionsOf = (send: (stage: VoidStage) => void): RetractionUpdate[] => {
    const stage = new VoidStage()
    const found: RetractionUpdate[] = []
    stage.hub.listen((_, update) => {
      if (update.kind === 'retraction') found.push(update)
    })
    stage.sink.opened(null)
    send(stage)
    stage.stop()
    return found
  }

  it('names each bank of a slot once', () => {
    const names = retractionsOf((stage) => stage.send(chain.sent)).map(
      ({ slot, bank }) => `${slot}/${bank}`,
    )
    expect(names.length).toBeGreaterThan(3)
    expect(new Set(names).size).toBe(names.length)
  })

  it('takes back all that is not final when the chain begins anew', () => {
    const found = retractionsOf((stage) => {
      stage.send(
        chain.sent.slice(
          0,
          chain.sent.findIndex(({ slot }) => slot === 1_003),
        ),
      )
      stage.sink.beginAnew()
    })
    const last = found.filter(({ reason }) => reason === 'migration')
    expect(last.map(({ slot }) => slot)).toContain(1_002)
    expect(last.every(({ restated }) => [...restated].length === 0)).toBe(true)
  })

  it('is not published for a slot of which nothing was', () => {
    const found = retractionsOf((stage) => {
      stage.send(chain.sent)
      const moment = { slot: 2_000, createdAtMs: 1 }
      stage.send([slotUpdate(moment, { parent: 1_999, status: slotStatus.dead, deadError: 'x' })])
    })
    expect(found.some(({ slot }) => slot === 2_000)).toBe(false)
  })

  it('has the names of all filters, and every client skips it that does not know it', async () => {
    const stage = new VoidStage()
    const reader = stage.stream(withRetractions(filtersOfAll(0)))
    stage.sink.opened(null)
    stage.send(chain.sent)
    await stage.flush()
    const type = codec.root.lookupType('geyser.SubscribeUpdate')
    const read = reader.messages().map((message) => type.toObject(type.decode(message)))
    const found = read.filter((update) => update.retraction !== undefined)
    expect(found.length).toBeGreaterThan(3)
    const kinds = ['account', 'slot', 'transaction', 'transactionStatus', 'block', 'blockMeta']
    for (const [at, message] of reader.messages().entries()) {
      const known = Yellowstone.SubscribeUpdate.decode(message)
      const kind = [...kinds, 'entry'].find((name) => known[name] !== undefined)
      expect(kind).toBe([...kinds, 'entry'].find((name) => read[at]![name] !== undefined))
    }
    for (const { filters } of found) expect(filters).toEqual(['a', 's', 't', 'u', 'b', 'm', 'e'])
    stage.stop()
  })
})

describe('a model client of subscriptions', () => {
  it(`holds exactly what is notified at confirmed, over ${seeds} seeds`, () => {
    for (let seed = 1; seed <= seeds; seed++) {
      const { sent, line } = chainOf(seed)
      const stage = new VoidStage()
      const pairs: [processed: number, confirmed: number][] = []
      const pair = (topic: string, filter: unknown) => {
        const at = (config: object) => stage.subscribe(topic, filter, config)
        const retracted = { commitment: 'processed', encoding: 'base64', retractions: true }
        pairs.push([at(retracted), at({ commitment: 'confirmed', encoding: 'base64' })])
      }
      pair('logs', 'allWithVotes')
      pair('transaction', {})
      for (const owner of ownersOf(sent).slice(0, 20)) pair('program', owner)
      const account = sent.find((one) => one.kind === 'account')!
      if (account.kind === 'account') pair('account', encodeBase58(account.pubkey))
      const slots = stage.subscribe('slot', { retractions: true })
      stage.sink.opened(null)
      stage.send(sent)
      const held = (id: number) => applyTexts(stage.notified.get(id) ?? []).slots
      for (const [processed, confirmed] of pairs)
        expect(held(processed), `seed ${seed}`).toEqual(held(confirmed))
      const parents = [999, ...line.keys()]
      expect([...held(slots)].map(([slot, texts]) => [slot, texts.length])).toEqual(
        [...line.keys()].map((slot) => [slot, 1]),
      )
      for (const [slot, [text]] of held(slots))
        expect(JSON.parse(text!).parent).toBe(parents[parents.indexOf(slot) - 1])
      stage.stop()
    }
  })
})
