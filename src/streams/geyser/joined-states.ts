// States of watched accounts before and after each transaction that wrote them.
// Of confirmed and finalized slots only, which come whole and in the order of the chain: writes are
// joined to their transaction by its signature, and the state before is that of the last write.
//
//   write of A by T ─► last state of A, if of an ancestor ─► waits for T ─► T: before, after
//
// Bounded: states that were not written for longest are forgotten; then the one before is unknown.
import { assert } from '../../base/assert.ts'
import { BackWriter } from '../../base/back-writer.ts'
import { keyOf } from '../../chain/solana/keys.ts'
import type { AccountUpdate, TransactionUpdate } from '../../chain/solana/updates.ts'
import type { KeyText } from '../hub/key-list.ts'
import type { BankChain, ChainBank } from './bank-chain.ts'

/** Accounts whose states a filter, or a subscription, is sent. */
export const watchedMax = 1_000
/** States of one stream; and as much of writes whose transaction has not come. */
const bytesMaxInitial = 16 * 1024 * 1024
/** Estimate for the fields and the key beside a state. */
const besideBytes = 256
/** Late writes wait for their transaction as long. */
const slotsMax = 16
/** Of SubscribeUpdateTransaction. */
const accountStatesField = 1011

interface State {
  readonly bank: ChainBank
  /** SubscribeUpdateAccountInfo. */
  readonly info: Buffer
}

export interface JoinedWrite {
  readonly pubkey: Buffer
  /** Null when it is unknown. */
  readonly before: Buffer | null
  /** Null when too much waits. */
  readonly after: Buffer | null
}

/** By signature and account. */
type SlotWrites = Map<string, Map<KeyText, JoinedWrite>>

export class JoinedStates {
  readonly #chain: BankChain
  readonly #bytesMax: number
  readonly #last = new Map<KeyText, State>()
  readonly #waiting = new Map<number, SlotWrites>()
  #lastBytes = 0
  #waitingBytes = 0

  constructor(chain: BankChain, bytesMax = bytesMaxInitial) {
    this.#chain = chain
    this.#bytesMax = bytesMax
  }

  restart(): void {
    for (const key of this.#last.keys()) this.forget(key)
    for (const slot of this.#waiting.keys()) this.endSlot(slot)
  }

  /** The key is watched no more: its next writes are not seen. */
  forget(key: KeyText): void {
    const state = this.#last.get(key)
    if (state !== undefined) this.#lastBytes -= state.info.length + besideBytes
    this.#last.delete(key)
  }

  /** What still waits of the slot is of no transaction that the stream is sent. */
  endSlot(slot: number): void {
    for (const writes of this.#waiting.get(slot)?.values() ?? []) this.#release(writes)
    this.#waiting.delete(slot)
  }

  /** A write of a watched account. `isWhole`: its slot has all its writes, and no others. */
  note(update: AccountUpdate, isWhole: boolean): void {
    const { slot, txnSignature } = update
    const key = keyOf(update.pubkey)
    const bank = this.#chain.of(slot)
    const last = this.#last.get(key)
    const isKnown = isWhole && last !== undefined && this.#chain.isAncestor(last.bank, bank)
    // Copied: the bytes of an update are a view of many.
    const info = Buffer.from(update.info)
    // A late one of an earlier slot: what the account has is of the later one.
    const isLate = last !== undefined && !last.bank.isVoid && last.bank.slot > slot
    if (!isLate) {
      this.forget(key)
      this.#keep(key, { bank, info })
    }
    if (txnSignature === null) return
    const writes = this.#waitingOf(slot, keyOf(txnSignature))
    const earlier = writes.get(key)
    if (earlier !== undefined) this.#waitingBytes -= bytesOf(earlier)
    // Written twice by the transaction: before it is before the first write.
    const before = earlier === undefined ? (isKnown ? last.info : null) : earlier.before
    const whole: JoinedWrite = { pubkey: Buffer.from(update.pubkey), before, after: info }
    const isTooMuch = this.#waitingBytes + bytesOf(whole) > this.#bytesMax
    const write = isTooMuch ? { ...whole, before: null, after: null } : whole
    writes.set(key, write)
    this.#waitingBytes += bytesOf(write)
  }

  /** States of another stream, of accounts that this one knows nothing of. */
  adopt(other: JoinedStates): void {
    for (const [key, { bank, info }] of other.#last) {
      if (this.#last.has(key) || bank.isVoid) continue
      this.#keep(key, { bank: bank.isFinal ? bank : this.#chain.of(bank.slot), info })
    }
  }

  /** What a transaction wrote of watched accounts; only once. */
  writesOf({ slot, signature }: TransactionUpdate): ReadonlyMap<KeyText, JoinedWrite> {
    const slots = this.#waiting.get(slot)
    const name = keyOf(signature)
    const writes = slots?.get(name)
    if (slots === undefined || writes === undefined) return noWrites
    slots.delete(name)
    this.#release(writes)
    return writes
  }

  /** The field of a transaction's update, for its watched accounts; empty when it wrote none. */
  take(update: TransactionUpdate, isWatched: (key: KeyText) => boolean): Buffer {
    const writes = this.writesOf(update)
    if (writes.size === 0) return none
    const shown = [...writes].filter(([key]) => isWatched(key)).map(([, write]) => write)
    writer.messages(accountStatesField, shown, ({ pubkey, before, after }) => {
      writer.flag(4, before === null)
      if (after !== null) writer.bytesAlways(3, after)
      if (before !== null) writer.bytesAlways(2, before)
      writer.bytesAlways(1, pubkey)
    })
    return writer.take()
  }

  #keep(key: KeyText, state: State): void {
    this.#last.set(key, state)
    this.#lastBytes += state.info.length + besideBytes
    while (this.#lastBytes > this.#bytesMax) this.forget(this.#last.keys().next().value!)
  }

  #release(writes: ReadonlyMap<KeyText, JoinedWrite>): void {
    for (const write of writes.values()) this.#waitingBytes -= bytesOf(write)
    assert(this.#waitingBytes >= 0, 'writes that wait are counted')
  }

  #waitingOf(slot: number, name: string): Map<KeyText, JoinedWrite> {
    const slots: SlotWrites = this.#waiting.get(slot) ?? new Map()
    this.#waiting.set(slot, slots)
    if (this.#waiting.size > slotsMax) this.endSlot(this.#waiting.keys().next().value!)
    const writes = slots.get(name) ?? new Map<KeyText, JoinedWrite>()
    slots.set(name, writes)
    return writes
  }
}

function bytesOf({ before, after }: JoinedWrite): number {
  return (before?.length ?? 0) + (after?.length ?? 0) + besideBytes
}

const none = Buffer.alloc(0)
const noWrites: ReadonlyMap<KeyText, JoinedWrite> = new Map()
const writer = new BackWriter()
