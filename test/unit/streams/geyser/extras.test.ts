// What filters of ours add to a stream, live and replayed; other streams have the same bytes.
import { describe, expect, it } from 'vitest'
import { encodeBase58, keyOf } from '../../../../src/chain/solana/base58.ts'
import type { AccountContent } from '../../../../src/chain/solana/geyser-decode.ts'
import { accountUpdate, retractionUpdate } from '../../../../src/chain/solana/received-batch.ts'
import type { AccountUpdate, SolanaUpdate } from '../../../../src/chain/solana/updates.ts'
import { publishUpdate } from '../../../../src/streams/geyser/hub.ts'
import {
  BankChain,
  JoinedStates,
  StreamStates,
} from '../../../../src/streams/geyser/joined-states.ts'
import {
  codec,
  GeyserStage,
  type ReadTransaction,
  type ReadUpdate,
  type StageStream,
  turns,
} from '../../../testkit/geyser-streams.ts'
import {
  at,
  brokenChain,
  brokenStates,
  chainStates,
  changingChain,
  changingStates,
  endOfSlot,
  first,
  named,
  other,
  second,
  statesChain,
  status,
  written,
} from '../../../testkit/states-chain.ts'
import { SyntheticSolana } from '../../../testkit/synthetic-solana.ts'

const keys = { accountInclude: [], accountExclude: [], accountRequired: [], instructions: [] }
const chainOf = () => new SyntheticSolana({ confirmedAfter: 2, finalizedAfter: 5 })

function publish(stage: GeyserStage, updates: Iterable<SolanaUpdate>): void {
  for (const update of updates) publishUpdate(stage.hub, update)
}

function slotsOf(chain: SyntheticSolana, slots: number): SolanaUpdate[] {
  return Array.from({ length: slots }, () => chain.next()).flat()
}

/** `signature block_time` of each transaction, or of its status. */
const timesOf = (updates: readonly ReadUpdate[]) =>
  updates.flatMap(({ transaction, transactionStatus }) => {
    if (transaction)
      return [`${keyOf(transaction.transaction.signature)} ${transaction.blockTime ?? null}`]
    if (!transactionStatus) return []
    return [`${keyOf(transactionStatus.signature)} ${transactionStatus.blockTime ?? null}`]
  })

describe('block_time', () => {
  const request = (commitment: number, blockTime: object) => ({
    commitment,
    transactions: { mine: { ...keys, ...blockTime } },
    transactionsStatus: { mine: { ...keys, ...blockTime } },
  })

  it.each([0, 1, 2])('is that of the block, live and replayed, at %i', async (at) => {
    const stage = new GeyserStage()
    const updates = slotsOf(chainOf(), 12)
    const live = stage.open(request(at, { blockTime: true }))
    publish(stage, updates)
    await turns()
    const replayed = stage.open({ ...request(at, { blockTime: true }), fromSlot: 1000 })
    await turns()
    const last = [1011, 1009, 1006][at]!
    const expected = updates.flatMap((update) => {
      if (update.kind !== 'transaction' || update.slot > last) return []
      const time = Math.floor((1_700_000_000_000 + update.slot * 400) / 1000)
      const line = `${keyOf(update.signature)} ${at === 0 ? null : time}`
      return [line, line]
    })
    expect(timesOf(live.updates())).toEqual(expected)
    expect(timesOf(replayed.updates())).toEqual(expected)
  })

  it('is only in updates that match a filter with it', async () => {
    const stage = new GeyserStage()
    const [asked, plain, both] = [{ blockTime: true }, {}, { blockTime: false }].map((one) =>
      stage.open(request(1, one)),
    )
    const mixed = stage.open({
      commitment: 1,
      transactions: {
        failed: { ...keys, failed: true, blockTime: true },
        all: { ...keys },
      },
    })
    const updates = slotsOf(chainOf(), 6)
    publish(stage, updates)
    await turns()
    const isTimed = (line: string) => !line.endsWith(' null')
    expect(timesOf(asked!.updates()).every(isTimed)).toBe(true)
    expect(timesOf(plain!.updates()).some(isTimed)).toBe(false)
    expect(both!.bytes()).toEqual(plain!.bytes())
    const failed = new Set(
      updates.flatMap((one) =>
        one.kind === 'transaction' && one.err ? [keyOf(one.signature)] : [],
      ),
    )
    for (const { filters, transaction } of mixed.updates()) {
      const name = keyOf(transaction!.transaction.signature)
      expect(filters).toEqual(failed.has(name) ? ['all', 'failed'] : ['all'])
      expect(transaction!.blockTime != null).toBe(failed.has(name))
    }
  })

  it('is absent where the block is not known when its transactions are confirmed', async () => {
    const stage = new GeyserStage()
    const live = stage.open(request(1, { blockTime: true }))
    const updates = slotsOf(chainOf(), 4)
    const isLate = ({ slot, kind }: SolanaUpdate) =>
      slot === 1001 && (kind === 'block' || kind === 'blockMeta')
    // After it was confirmed, while the same slot is the newest.
    publish(stage, [...updates.filter((one) => !isLate(one)), ...updates.filter(isLate)])
    await turns()
    const replayed = stage.open({ ...request(1, { blockTime: true }), fromSlot: 1000 })
    await turns()
    const isTimed = ({ transaction }: ReadUpdate) => transaction!.blockTime != null
    for (const stream of [live, replayed]) {
      const sent = stream.updates().filter(({ transaction }) => transaction)
      expect(sent.length).toBe(12)
      for (const one of sent) expect(isTimed(one)).toBe(one.transaction!.slot !== '1001')
    }
  })
})

describe('diff_only', () => {
  const watched = new Uint8Array(32).fill(7)
  const other = new Uint8Array(32).fill(8)
  const owner = new Uint8Array(32).fill(9)
  let writeVersion = 0n
  /** A write of that state, and of what else an account has. */
  const write = (slot: number, state: number, more: Partial<AccountContent> = {}) =>
    accountUpdate(at(slot), {
      ...{ pubkey: watched, lamports: 5n, owner, executable: false, rentEpoch: 0n },
      ...{ data: Uint8Array.of(state), writeVersion: ++writeVersion, txnSignature: null, ...more },
    })
  /** A whole slot with these states. */
  const slotOf = (slot: number, parent: number, ...states: number[]) => [
    status(slot, parent, 5),
    ...states.map((state) => write(slot, state)),
    ...endOfSlot(slot, parent),
  ]
  const request = (commitment: number, diffOnly = true) => ({
    commitment,
    accounts: { mine: { account: [watched, other].map((key) => encodeBase58(key)), diffOnly } },
  })
  /** `slot state` of each write that was sent. */
  const sent = (stream: StageStream) =>
    stream.updates().flatMap(({ account }) => {
      if (!account) return []
      return [`${account.slot} ${account.account.data[0]}`]
    })

  it.each([0, 1, 2])(
    'leaves out writes that change nothing, live and replayed, at %i',
    async (to) => {
      const stage = new GeyserStage()
      const [live, plain] = [stage.open(request(to)), stage.open(request(to, false))]
      const confirm = (slot: number) => [status(slot, slot - 1, 1), status(slot, slot - 1, 2)]
      publish(stage, [
        ...slotOf(10, 9, 1, 1, 2),
        ...slotOf(11, 10, 2),
        ...[...confirm(10), ...confirm(11)],
        status(12, 11, 5),
        write(12, 2, { writeVersion: 99n, txnSignature: new Uint8Array(64).fill(3) }),
        ...[write(12, 2, { lamports: 6n }), write(12, 2, { lamports: 6n })],
        ...[write(12, 2, { owner: watched }), write(12, 2, { executable: true })],
        write(12, 2, { rentEpoch: 1n }),
        ...[write(12, 2, { pubkey: other }), write(12, 2, { pubkey: other })],
        ...endOfSlot(12, 11),
        ...slotOf(13, 12, 2, 2),
        ...[...confirm(12), ...confirm(13)],
      ])
      await turns()
      const replayed = stage.open({ ...request(to), fromSlot: 10 })
      await turns()
      const expected = ['10 1', '10 2', '12 2', '12 2', '12 2', '12 2', '12 2', '13 2']
      expect(sent(live)).toEqual(expected)
      expect(sent(replayed)).toEqual(expected)
      expect(sent(plain).length).toBe(3 + 1 + 8 + 2)
    },
  )

  it('compares with the state of the parent, not with that of another fork', async () => {
    const stage = new GeyserStage()
    const live = stage.open(request(0))
    publish(stage, [
      ...slotOf(10, 9, 1),
      ...slotOf(11, 10, 2),
      // A fork of slot 10: the same state as in 11 is a change there, and back again, too.
      ...slotOf(12, 10, 2, 1),
      ...slotOf(13, 12, 1),
      // The last state that came is of a fork: that of the chain may be equal, the client's is not.
      ...slotOf(14, 11, 2),
    ])
    await turns()
    expect(sent(live)).toEqual(['10 1', '11 2', '12 2', '12 1', '14 2'])
  })

  it.each([{}, { 'x-retractions': 'true' }])(
    'forgets the states of a bank that is void, with %o',
    async (headers) => {
      const stage = new GeyserStage()
      const live = stage.open(request(0), headers)
      publish(stage, [
        ...slotOf(10, 9, 1),
        ...[status(11, 10, 5), write(11, 2)],
        retractionUpdate(at(11), { bank: 1, reason: 'handover', restated: [] }),
        ...slotOf(11, 10, 2, 2),
        retractionUpdate(at(11), { bank: 2, reason: 'fork', restated: [] }),
        ...slotOf(12, 10, 2),
      ])
      await turns()
      expect(sent(live)).toEqual(['10 1', '11 2', '11 2', '12 2'])
    },
  )

  it('sends what follows a gap', async () => {
    const stage = new GeyserStage()
    const live = stage.open(request(0))
    publish(stage, [
      ...slotOf(10, 9, 1),
      // Slot 11 never came; of 13 some is missing.
      ...slotOf(12, 11, 1),
      ...[status(13, 12, 5), ...endOfSlot(13, 12, false)],
      ...slotOf(14, 13, 1),
      ...slotOf(15, 14, 1),
      // The slots after the gaps are finalized: what was before them stays unknown.
      ...slotOf(16, 15),
      ...[10, 12, 13, 14, 15].map((slot) => status(slot, [9, 0, 11, 12, 13, 14][slot - 10]!, 2)),
      write(16, 1, { pubkey: other }),
    ])
    await turns()
    expect(sent(live)).toEqual(['10 1', '12 1', '14 1', '16 1'])
  })

  it('knows states of finalized slots, however old, until a slot is missing', async () => {
    const stage = new GeyserStage()
    const live = stage.open(request(0))
    const run = (from: number, to: number, parent = from - 1) =>
      Array.from({ length: to - from }, (_, nth) => {
        const slot = from + nth
        const over = nth === 0 ? parent : slot - 1
        return [...slotOf(slot, over), ...(slot > 11 ? [status(slot - 2, slot - 3, 2)] : [])]
      }).flat()
    publish(stage, [...slotOf(10, 9, 1), ...run(11, 40), ...slotOf(40, 39, 1)])
    // Another one was lost, and all after it is finalized.
    publish(stage, [...run(42, 60, 41), ...slotOf(60, 59, 1)])
    await turns()
    expect(sent(live)).toEqual(['10 1', '60 1'])
  })

  it('knows no state from before a slot of which nothing came, once those after it are final', async () => {
    const stage = new GeyserStage()
    const live = stage.open(request(0))
    const final = (slot: number, parent: number) => [
      ...slotOf(slot, parent),
      status(slot, parent, 2),
    ]
    publish(stage, [...slotOf(10, 9, 1), status(10, 9, 2)])
    publish(stage, [...final(12, 11), ...final(13, 12), ...slotOf(14, 13, 1)])
    await turns()
    expect(sent(live)).toEqual(['10 1', '14 1'])
  })

  it('sends a write that comes out of order, and the next one', async () => {
    const stage = new GeyserStage()
    const live = stage.open(request(0))
    publish(stage, [...slotOf(10, 9, 1), ...slotOf(11, 10, 2), write(10, 1), ...slotOf(12, 11, 1)])
    await turns()
    expect(sent(live)).toEqual(['10 1', '11 2', '10 1', '12 1'])
  })

  it('begins anew with the chain and with new filters, and holds with keys that change', async () => {
    const stage = new GeyserStage()
    const live = stage.open(request(0))
    publish(stage, slotOf(10, 9, 1))
    live.send({ keys: { id: 1, changes: [{ filter: 'mine', remove: [other] }] } })
    publish(stage, [...slotOf(11, 10, 1), write(12, 1, { pubkey: other })])
    live.send(request(0))
    publish(stage, slotOf(12, 11, 1))
    stage.hub.restart()
    publish(stage, slotOf(13, 12, 1))
    await turns()
    expect(sent(live)).toEqual(['10 1', '12 1', '13 1'])
  })

  it('keeps no more states than its bound', () => {
    const states = new StreamStates(8)
    const key = (index: number) => {
      const pubkey = Buffer.alloc(32)
      pubkey.writeUInt32BE(index)
      return { pubkey }
    }
    expect(states.isChange(0, write(10, 1, key(0)))).toBe(true)
    expect(states.isChange(0, write(10, 1, key(0)))).toBe(false)
    for (let index = 1; index <= 8; index++) states.isChange(0, write(10, 1, key(index)))
    expect(states.isChange(0, write(10, 1, key(2)))).toBe(false)
    expect(states.isChange(0, write(10, 1, key(0)))).toBe(true)
  })
})

describe('account_states', () => {
  const request = (commitment = 1, more: object = {}) => ({
    commitment,
    transactions: {
      mine: {
        ...keys,
        accountInclude: [first, second].map((key) => encodeBase58(key)),
        accountStates: true,
        ...more,
      },
    },
  })
  /** `signature first byte, account, before > after` of each transaction. */
  const joined = (stream: StageStream) =>
    stream.updates().flatMap(({ transaction }) => {
      if (!transaction) return []
      const name = String.fromCharCode(transaction.transaction.signature[0]!)
      const states = transaction.accountStates ?? []
      return [
        [
          name,
          ...states.map(({ pubkey, before, after, isBeforeUnknown }) => {
            expect(isBeforeUnknown === true).toBe(before === undefined)
            if (after) expect(keyOf(after.pubkey)).toBe(keyOf(pubkey))
            const shown = (state?: { lamports: string; data: Uint8Array }) => {
              if (state) expect(String(state.data[0])).toBe(state.lamports)
              return state?.lamports ?? '?'
            }
            return `${pubkey[0]} ${shown(before)}>${shown(after)}`
          }),
        ].join(', '),
      ]
    })
  it.each([1, 2])('are joined to their transaction, live and replayed, at %i', async (to) => {
    const stage = new GeyserStage()
    const live = stage.open(request(to))
    const plain = stage.open(request(to, { accountStates: false }))
    publish(stage, statesChain())
    await turns()
    const replayed = stage.open({ ...request(to), fromSlot: 10 })
    await turns()
    expect(joined(live)).toEqual(chainStates)
    expect(joined(replayed)).toEqual(chainStates)
    expect(joined(plain)).toEqual(['a', 'b', 'c', 'd', 'e'])
  })

  it('are unknown after a slot that is missing, not whole, or has writes of another bank', async () => {
    const stage = new GeyserStage()
    const live = stage.open(request())
    publish(stage, brokenChain())
    await turns()
    expect(joined(live)).toEqual(brokenStates)
  })

  it('follow keys that change, and forget those that left', async () => {
    const stage = new GeyserStage()
    const live = stage.open(request())
    const [before, between, after] = changingChain()
    publish(stage, before)
    const change = { filter: 'mine', list: 2, add: [other], remove: [first] }
    live.send({ keys: { id: 1, changes: [change] } })
    publish(stage, between)
    live.send({ keys: { id: 2, changes: [{ filter: 'mine', list: 2, add: [first] }] } })
    publish(stage, after)
    await turns()
    expect(joined(live)).toEqual(changingStates)
  })

  it('are refused at processed, without keys, with too many, and for statuses', () => {
    const stage = new GeyserStage()
    const endOf = (asked: object) => stage.open(asked).ended
    const many = Array.from({ length: 1_001 }, (_, index) => encodeBase58(Buffer.alloc(32, index)))
    expect(endOf(request(0))).toMatch(/account_states: only at CONFIRMED and FINALIZED/)
    expect(endOf(request(1, { accountInclude: [] }))).toMatch(/needs 1 to 1000 keys/)
    expect(endOf(request(1, { accountInclude: many }))).toMatch(/needs 1 to 1000 keys/)
    const { transactions } = request()
    expect(endOf({ commitment: 1, transactionsStatus: transactions })).toMatch(/has no states/)
  })

  it('are never those of a write that came after one of a later slot', () => {
    const chain = new BankChain()
    const states = new JoinedStates(chain)
    const slot = (number: number, write: AccountUpdate) => {
      chain.take(status(number, number - 1, 5), () => true)
      states.note(write, true)
      for (const update of endOfSlot(number, number - 1)) chain.take(update, () => true)
    }
    const newest = written(11, first, 2, 'b')
    slot(10, written(10, first, 1, 'a'))
    slot(11, newest)
    states.note(written(10, first, 9, 'late'), true)
    slot(12, written(12, first, 3, 'c'))
    const [shown] = states.writesOf(named(12, 'c')).values()
    expect(shown!.before).toEqual(newest.info)
  })

  it('are those before the first and after the last write of a transaction', () => {
    const states = new JoinedStates(new BankChain())
    const write = (state: number, by: string) => {
      states.note(accountUpdate(at(10), written(10, first, state, by)), true)
    }
    write(1, 'a')
    for (const state of [2, 3]) write(state, 'b')
    const body = states.take(named(10, 'b'), () => true)
    const read = codec.decode<ReadTransaction>('geyser.SubscribeUpdateTransaction', body)!
    const [{ before, after }] = read.accountStates as [ReadTransaction['accountStates'][number]]
    expect([before!.data[0], after!.data[0]]).toEqual([1, 3])
  })

  it('are bounded: what was not written for longest is unknown, what waits too long is left out', () => {
    const known = new BankChain()
    const states = new JoinedStates(known, 2_500)
    const write = (pubkey: Buffer, state: number, by: string, bytes = 1) => {
      const data = Buffer.alloc(bytes, state)
      states.note(accountUpdate(at(10), { ...written(10, pubkey, state, by), data }), true)
    }
    const taken = (name: string) => {
      const body = states.take(named(10, name), () => true)
      const read = codec.decode<ReadTransaction>('geyser.SubscribeUpdateTransaction', body)!
      return read.accountStates.map(({ pubkey, isBeforeUnknown }) => {
        return `${pubkey[0]} ${isBeforeUnknown}`
      })
    }
    write(first, 1, 'a')
    write(first, 2, 'b', 900)
    expect([taken('a'), taken('b')]).toEqual([['21 true'], ['21 false']])
    // Two of 900 bytes and what is beside them are over the bound: the first is forgotten.
    write(second, 3, 'c', 900)
    write(first, 4, 'd')
    expect([taken('c'), taken('d')]).toEqual([['22 true'], ['21 true']])
    // The states before and after count alike.
    for (const name of ['e', 'f']) write(second, 5, name, 900)
    expect([taken('e'), taken('f')]).toEqual([['22 false'], ['22 true']])
    write(second, 6, 'h', 900)
    states.endSlot(10)
    expect(taken('h')).toEqual([])
  })
})
