import { describe, expect, it } from 'vitest'
import { keyOf } from '../../../../src/chain/solana/base58.ts'
import {
  accountUpdate,
  entryUpdate,
  ReceivedBatch,
  transactionUpdate,
} from '../../../../src/chain/solana/received-batch.ts'
import { ItemNames, type SlotItem } from '../../../../src/streams/flows/item-names.ts'
import { batchFrom, messageOf } from '../../../testkit/geyser-messages.ts'
import { randomOf, SyntheticSolana } from '../../../testkit/synthetic-solana.ts'

const moment = { slot: 7, createdAtMs: 0 }
const chain = new SyntheticSolana()
const bytes = (length: number, fill: number) => new Uint8Array(length).fill(fill)
const signature = bytes(64, 1)
const content = {
  ...{ pubkey: bytes(32, 2), owner: bytes(32, 3), lamports: 5n, executable: false, rentEpoch: 0n },
  ...{ data: bytes(9, 4), writeVersion: 1n, txnSignature: signature },
}
const unsigned = { ...content, txnSignature: null }
const entryContent = {
  ...{ index: 3, numHashes: 1, hash: bytes(32, 5) },
  ...{ executedTransactionCount: 2, startingTransactionIndex: 0 },
}

function account(changes: Partial<typeof content> = {}): SlotItem {
  return accountUpdate(moment, { ...content, ...changes })
}

function unsignedAccount(changes: Partial<typeof unsigned> = {}): SlotItem {
  return accountUpdate(moment, { ...unsigned, ...changes })
}

function transaction(key: Uint8Array, index = 4): SlotItem {
  return transactionUpdate(moment, { ...chain.transaction(index), signatures: [key] })
}

function entry(changes: Partial<typeof entryContent> = {}): SlotItem {
  return entryUpdate(moment, { ...entryContent, ...changes })
}

/** The same item as a node sends it. */
function received(item: SlotItem): SlotItem {
  const batch = new ReceivedBatch(batchFrom([messageOf(account()), messageOf(item)]))
  return batch.update(1) as SlotItem
}

/** Of a byte array with one bit changed. */
function flipped(from: Uint8Array<ArrayBuffer>, at: number) {
  return from.map((byte, index) => (index === at ? byte ^ 0x80 : byte))
}

/** One of each way to be another item than the first of the list. */
const different: Record<string, readonly SlotItem[]> = {
  accounts: [
    account(),
    ...[0, 15, 31].map((at) => account({ pubkey: flipped(content.pubkey, at) })),
    ...[0, 31, 32, 63].map((at) => account({ txnSignature: flipped(signature, at) })),
  ],
  'accounts that no transaction wrote': [
    unsignedAccount(),
    unsignedAccount({ pubkey: flipped(content.pubkey, 31) }),
    unsignedAccount({ lamports: 6n }),
    unsignedAccount({ lamports: 5n + 2n ** 32n }),
    unsignedAccount({ lamports: 5n + 2n ** 63n }),
    unsignedAccount({ data: bytes(10, 4) }),
    unsignedAccount({ data: bytes(9, 5) }),
  ],
  transactions: [
    transaction(signature),
    ...[0, 31, 32, 63].map((at) => transaction(flipped(signature, at))),
  ],
  entries: [
    entry(),
    entry({ index: 4 }),
    entry({ index: 3 + 2 ** 32 }),
    entry({ executedTransactionCount: 3 }),
    ...[0, 31].map((at) => entry({ hash: flipped(entryContent.hash, at) })),
  ],
  'items of odd lengths': [
    account({ pubkey: bytes(31, 2) }),
    account({ pubkey: bytes(33, 2) }),
    account({ txnSignature: bytes(63, 1) }),
    account({ txnSignature: bytes(0, 1) }),
    accountUpdate(moment, { ...unsigned, pubkey: bytes(31, 2) }),
    accountUpdate(moment, { ...unsigned, pubkey: bytes(31, 2), lamports: 6n }),
    entry({ hash: bytes(31, 5) }),
    entry({ hash: bytes(31, 5), index: 4 }),
  ],
}

/** What a name was as a text: exact, and slow. */
function textOf(item: SlotItem): string {
  if (item.kind === 'account') {
    const { pubkey, txnSignature, lamports, data } = item
    const by = txnSignature === null ? `${lamports} ${keyOf(data)}` : keyOf(txnSignature)
    return `a${keyOf(pubkey)}${by}`
  }
  return item.kind === 'transaction' ? `t${keyOf(item.signature)}` : `e${keyOf(item.body)}`
}

describe('ItemNames', () => {
  for (const [what, items] of Object.entries(different))
    it(`tells ${what} apart, and knows each again as a node sends it`, () => {
      for (const item of items) {
        const names = new ItemNames()
        expect(names.arrive(item, 0, false)).toBe('first')
        // Of another stream: the same item would be a duplicate.
        for (const [index, other] of items.entries())
          expect(names.arrive(received(other), 1, false), `${items.indexOf(item)}, ${index}`).toBe(
            other === item ? 'duplicate' : 'first',
          )
      }
    })

  it('leaves out what each node numbers itself', () => {
    const names = new ItemNames()
    expect(names.arrive(account(), 0, true)).toBe('first')
    expect(names.arrive(account({ writeVersion: 9n }), 1, true)).toBe('duplicate')
    expect(names.arrive(transaction(signature, 0), 0, true)).toBe('first')
    expect(names.arrive(transaction(signature, 0), 1, true)).toBe('duplicate')
  })

  it('says that another transaction or entry is at an index, and does not count it', () => {
    const names = new ItemNames()
    const other = transaction(flipped(signature, 9))
    expect(names.arrive(transaction(signature), 0, true)).toBe('first')
    expect(names.arrive(received(other), 1, true)).toBe('contradiction')
    expect(names.arrive(entry({ index: 4 }), 0, true)).toBe('first')
    expect(names.arrive(entry({ index: 4, hash: signature.subarray(32) }), 1, true)).toBe(
      'contradiction',
    )
    expect(names.arrive(other, 0, false)).toBe('first')
  })

  it('counts thousands of items of four streams as a map of texts does', () => {
    const random = randomOf(11)
    const below = (bound: number) => Math.floor(random() * bound)
    const items = Array.from({ length: 3 }, () => chain.next()).flat()
    const sent = items.filter(({ kind }) => ['account', 'transaction', 'entry'].includes(kind))
    const keys = Array.from({ length: 1_500 }, (_, at) => {
      const key = bytes(32, 0)
      new DataView(key.buffer).setUint16(at % 30, at)
      return account({
        pubkey: key,
        txnSignature: at % 3 === 0 ? flipped(signature, 5) : signature,
      })
    })
    const all = [...(sent as SlotItem[]), ...keys].map(received)
    const names = new ItemNames()
    const counts = new Map<string, number>()
    const get = (key: string) => counts.get(key) ?? 0
    for (let step = 0; step < 12_000; step++) {
      const stream = below(4)
      if (below(3_000) === 0) {
        names.restart(stream)
        for (const key of counts.keys()) if (key.startsWith(`${stream} `)) counts.delete(key)
      }
      const item = all[below(all.length)]!
      const text = textOf(item)
      const count = get(`${stream} ${text}`) + 1
      counts.set(`${stream} ${text}`, count)
      const isFirst = count > get(`p ${text}`)
      if (isFirst) counts.set(`p ${text}`, count)
      const arrival = names.arrive(item, stream, false)
      if (arrival !== (isFirst ? 'first' : 'duplicate')) expect.fail(`step ${step}: ${arrival}`)
    }
  })
})
