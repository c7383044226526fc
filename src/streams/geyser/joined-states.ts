// States of watched accounts before and after each transaction that wrote them.
// Of confirmed and finalized slots only, which come whole and in the order of the chain: writes are
// joined to their transaction by its signature, and the state before is that of the last write.
//
//   write of A by T ─► last state of A, if of an ancestor ─► waits for T ─► T: before, after
//
// Bounded: states that were not written for longest are forgotten; then the one before is unknown.
import { createHash } from 'node:crypto'
import { assert } from '../../base/errors.ts'
import { BackWriter } from '../../base/protobuf.ts'
import { keyOf } from '../../chain/solana/base58.ts'
import {
  type AccountUpdate,
  endsBank,
  type SolanaUpdate,
  slotStatus,
  type TransactionUpdate,
} from '../../chain/solana/updates.ts'
import type { KeyText } from '../hub/key-list.ts'

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

// The last states of accounts of one stream, along its chain of banks: for filters that are sent
// only what changed, or the states before and after a transaction.
//
//   account write ─► bank of its slot ─► last write of the account ─► of an ancestor? equal?
//
// One state of each account is kept: the last that came, of whatever fork. Where that is not of an
// ancestor, or came out of order, or was evicted, the state before is unknown, and never guessed.
// It begins with the filters, so that a replay from the same slot has the same results.

/** Accounts of a stream whose states are known, by filter: about 250 bytes each. */
const statesMax = 65_536

interface StateDigest {
  readonly bank: ChainBank
  /** Empty for one that was overtaken: what the account has now is unknown. */
  readonly digest: string
}

export class StreamStates {
  readonly #chain = new BankChain()
  /** Of transactions filters that ask for it. */
  readonly joined = new JoinedStates(this.#chain)
  readonly #states = new Map<string, StateDigest>()
  readonly #max: number

  constructor(max = statesMax) {
    this.#max = max
  }

  /** An update that the stream may or may not be sent. `isWhole`: of a meta, as in BankChain. */
  take(update: SolanaUpdate, isWhole: () => boolean): void {
    this.#chain.take(update, isWhole)
    if (update.kind === 'blockMeta') this.joined.endSlot(update.slot)
  }

  restart(): void {
    this.#chain.restart()
    this.joined.restart()
    this.#states.clear()
  }

  /** Whether a write that a filter matched changed something; true when that is unknown. */
  isChange(filter: number, update: AccountUpdate): boolean {
    const key = `${filter} ${keyOf(update.pubkey)}`
    const before = this.#states.get(key)
    const bank = this.#chain.of(update.slot)
    const digest = digestOf(update)
    this.#states.delete(key)
    const isLate = before !== undefined && !before.bank.isVoid && before.bank.slot > update.slot
    this.#states.set(key, isLate ? { bank: before.bank, digest: '' } : { bank, digest })
    if (this.#states.size > this.#max) this.#states.delete(this.#states.keys().next().value!)
    if (before === undefined || before.digest !== digest) return true
    return !this.#chain.isAncestor(before.bank, bank)
  }
}

/** Once for all streams and filters that a write is matched by. */
const digests = new WeakMap<AccountUpdate, string>()

/** Of all that a write may change; not of who wrote it and when. */
function digestOf(update: AccountUpdate): string {
  const known = digests.get(update)
  if (known !== undefined) return known
  const { lamports, owner, executable, rentEpoch, data } = update
  const hash = createHash('sha256').update(`${lamports} ${executable} ${rentEpoch} `)
  const digest = hash.update(owner).update(data).digest('binary')
  digests.set(update, digest)
  return digest
}

// Which banks of a stream are ancestors of which, from its statuses, metas and retractions.
// What is not known is no ancestor: a slot of which nothing or only a part came breaks the chain.

/** As many as the hub keeps content of; a healthy chain has about 33 that are not finalized. */
const banksMax = 1_024

class ChainBank {
  readonly slot: number
  parent: number | null
  /** Another bank of the slot followed, the slot is dead, or another fork has won. */
  isVoid = false
  isFinal = false
  /** All its items came; or it is over and some are missing. */
  isWhole = false
  hasGap = false

  constructor(slot: number, parent: number | null) {
    this.slot = slot
    this.parent = parent
  }
}

export class BankChain {
  /** The last bank of each slot that is not below the newest finalized one. */
  readonly #banks = new Map<number, ChainBank>()
  #newestFinal: ChainBank | null = null
  /** From this slot on no finalized one is missing. */
  #unbrokenFrom = 0

  restart(): void {
    for (const bank of this.#banks.values()) bank.isVoid = true
    this.#banks.clear()
    this.#newestFinal = null
  }

  /** The bank whose items are published now. */
  of(slot: number): ChainBank {
    return this.#banks.get(slot) ?? this.#add(slot, null)
  }

  /** `isWhole`: of a meta, whether all items of its block are there. */
  take(update: SolanaUpdate, isWhole: () => boolean): void {
    const { slot } = update
    if (update.kind === 'retraction') this.#void(slot)
    else if (update.kind === 'blockMeta') {
      const bank = this.of(slot)
      bank.parent = update.parentSlot
      bank.isWhole = isWhole()
      bank.hasGap = !bank.isWhole
    } else if (update.kind === 'slot') {
      const { status, parent } = update
      if (endsBank(status)) this.#void(slot)
      if (status === slotStatus.createdBank) this.#add(slot, parent)
      else if (this.#banks.has(slot)) this.of(slot).parent ??= parent
      if (status === slotStatus.finalized) this.#finalize(slot, parent)
    }
  }

  /** Whether everything between the two is known, and of one chain. A bank is its own ancestor. */
  isAncestor(bank: ChainBank, of: ChainBank): boolean {
    if (bank.isVoid) return false
    // No slot is below 0: a parent that is not known has no bank.
    for (let at: ChainBank | undefined = of; at; at = this.#banks.get(at.parent ?? -1)) {
      if (at.hasGap || at.slot < bank.slot) return false
      if (at === bank) return true
      if (at.isFinal) return bank.isFinal && bank.slot >= this.#unbrokenFrom
    }
    return false
  }

  #add(slot: number, parent: number | null): ChainBank {
    const bank = new ChainBank(slot, parent)
    this.#banks.set(slot, bank)
    if (this.#banks.size > banksMax) this.#void(this.#banks.keys().next().value!)
    return bank
  }

  #void(slot: number): void {
    const bank = this.#banks.get(slot)
    if (bank === undefined) return
    bank.isVoid = true
    this.#banks.delete(slot)
  }

  /** Everything below it is final or void. */
  #finalize(slot: number, parent: number | null): void {
    const before = this.#newestFinal
    if (before !== null && slot <= before.slot) return
    const bank = this.#banks.get(slot) ?? this.#add(slot, parent)
    bank.isFinal = true
    if (before === null || bank.parent !== before.slot) this.#unbrokenFrom = slot
    if (!bank.isWhole) this.#unbrokenFrom = slot + 1
    this.#newestFinal = bank
    for (const [old, { isFinal }] of this.#banks)
      if (old < slot) {
        if (!isFinal) this.#void(old)
        else this.#banks.delete(old)
      }
  }
}
