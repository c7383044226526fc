// Slots whose transactions write watched accounts, and what states before and after each of them a
// stream must have: the same on gRPC and on PubSub.
import type { AccountContent } from '../../src/chain/solana/geyser-decode.ts'
import {
  accountUpdate,
  blockMetaUpdate,
  slotUpdate,
  transactionUpdate,
} from '../../src/chain/solana/received-batch.ts'
import type { SolanaUpdate } from '../../src/chain/solana/updates.ts'
import { SyntheticSolana } from './synthetic-solana.ts'

export const at = (slot: number) => ({ slot, createdAtMs: slot * 400 })

export const status = (slot: number, parent: number, value: 0 | 1 | 2 | 5 | 6) =>
  slotUpdate(at(slot), { parent, status: value })

/** The end of a slot: its block, unless it is not whole, and its meta. */
export function endOfSlot(slot: number, parent: number, isWhole = true): SolanaUpdate[] {
  const meta = blockMetaUpdate(at(slot), {
    ...{ blockhash: `hash ${slot}`, parentSlot: parent, parentBlockhash: '', rewards: [] },
    ...{ blockHeight: slot, blockTime: slot, executedTransactionCount: 0, entriesCount: 0 },
  })
  const content = { transactions: [], accounts: [], entries: [] }
  const block: SolanaUpdate = { kind: 'block', ...at(slot), meta, ...content }
  return [...(isWhole ? [block] : []), meta, status(slot, parent, 0)]
}

/** Accounts of every transaction; the first two are watched. */
export const [first, second, other] = [21, 22, 23].map((byte) => Buffer.alloc(32, byte)) as [
  Buffer,
  Buffer,
  Buffer,
]

const signatureOf = (name: string) => Buffer.alloc(64, name)
let writeVersion = 0n

/** A write of that state by the transaction of that name. */
export function written(slot: number, pubkey: Buffer, state: number, by: string | null) {
  const content: AccountContent = {
    ...{ pubkey, lamports: BigInt(state), owner: other, executable: false, rentEpoch: 0n },
    ...{ data: Uint8Array.of(state), writeVersion: ++writeVersion },
    txnSignature: by === null ? null : signatureOf(by),
  }
  return accountUpdate(at(slot), content)
}

/** Its name is what the first byte of its signature shows. */
export function named(slot: number, name: string, index = 0) {
  const content = new SyntheticSolana().transaction(index)
  const message = { ...content.message, accountKeys: [first, second, other] }
  return transactionUpdate(at(slot), { ...content, message, signatures: [signatureOf(name)] })
}

/** A slot that becomes confirmed and finalized. */
export function slotWith(
  slot: number,
  parent: number,
  items: readonly SolanaUpdate[],
  isWhole = true,
): SolanaUpdate[] {
  return [
    status(slot, parent, 5),
    ...items,
    ...endOfSlot(slot, parent, isWhole),
    status(slot, parent, 1),
    status(slot, parent, 2),
  ]
}

/** One transaction that writes all three accounts. */
export const writtenAll = (slot: number, state: number, name = 'a') => [
  ...[first, second, other].map((key) => written(slot, key, state, name)),
  named(slot, name),
]

/** Between these a reader of the first two turns to the last two, and then to all three. */
export function changingChain(): [SolanaUpdate[], SolanaUpdate[], SolanaUpdate[]] {
  const wrote = (slot: number, state: number) => slotWith(slot, slot - 1, writtenAll(slot, state))
  // So far on that the change is settled: the key is seen no more.
  const settled = Array.from({ length: 158 }, (_, index) => slotWith(12 + index, 11 + index, []))
  return [
    wrote(10, 1),
    [...wrote(11, 2), ...settled.flat(), ...wrote(170, 3)],
    [...wrote(171, 4), ...wrote(172, 5)],
  ]
}

export const changingStates = [
  'a, 21 ?>1, 22 ?>1',
  'a, 22 1>2, 23 ?>2',
  'a, 22 2>3, 23 2>3',
  'a, 21 ?>4, 22 3>4, 23 3>4',
  'a, 21 4>5, 22 4>5, 23 4>5',
]

export function statesChain(): SolanaUpdate[] {
  return [
    ...slotWith(10, 9, [
      written(10, first, 1, 'a'),
      written(10, other, 1, 'a'),
      // The next transaction of the account is executed before the first is told.
      written(10, first, 2, 'b'),
      written(10, second, 5, 'b'),
      named(10, 'a'),
      named(10, 'b', 1),
    ]),
    // Written by no transaction: the state before the next one all the same.
    ...slotWith(11, 10, [
      written(11, second, 6, null),
      written(11, second, 7, 'c'),
      named(11, 'c'),
    ]),
    ...slotWith(12, 11, [named(12, 'd')]),
    ...slotWith(13, 12, [written(13, first, 3, 'e'), named(13, 'e')]),
  ]
}

/** `name, account before>after` of each transaction of the chain; `?` is unknown. */
export const chainStates = ['a, 21 ?>1', 'b, 21 1>2, 22 ?>5', 'c, 22 6>7', 'd', 'e, 21 2>3']

/** The chain has gaps, a slot that is not whole and one with writes of another bank. */
export function brokenChain(): SolanaUpdate[] {
  const one = (slot: number, state: number, name: string) => [
    written(slot, first, state, name),
    named(slot, name),
  ]
  const mixed = slotWith(17, 16, one(17, 5, 'e')).map((update) =>
    update.kind === 'block' ? { ...update, hasVoid: true } : update,
  )
  return [
    ...slotWith(10, 9, one(10, 1, 'a')),
    // Slot 11 never came.
    ...slotWith(12, 11, one(12, 2, 'b')),
    ...slotWith(13, 12, one(13, 3, 'c'), false),
    ...slotWith(16, 13, one(16, 4, 'd')),
    ...mixed,
    ...slotWith(18, 17, one(18, 6, 'f')),
    ...slotWith(19, 18, one(19, 7, 'g')),
  ]
}

export const brokenStates = [
  'a, 21 ?>1',
  'b, 21 ?>2',
  'c, 21 ?>3',
  'd, 21 ?>4',
  'e, 21 ?>5',
  'f, 21 ?>6',
  'g, 21 6>7',
]
