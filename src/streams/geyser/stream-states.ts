// The last states of accounts of one stream, along its chain of banks: for filters that are sent
// only what changed, or the states before and after a transaction.
//
//   account write ─► bank of its slot ─► last write of the account ─► of an ancestor? equal?
//
// One state of each account is kept: the last that came, of whatever fork. Where that is not of an
// ancestor, or came out of order, or was evicted, the state before is unknown, and never guessed.
// It begins with the filters, so that a replay from the same slot has the same results.
import { createHash } from 'node:crypto'
import { keyOf } from '../../chain/solana/keys.ts'
import type { AccountUpdate, SolanaUpdate } from '../../chain/solana/updates.ts'
import { BankChain, type ChainBank } from './bank-chain.ts'
import { JoinedStates } from './joined-states.ts'

/** Accounts of a stream whose states are known, by filter: about 250 bytes each. */
const statesMax = 65_536

interface State {
  readonly bank: ChainBank
  /** Empty for one that was overtaken: what the account has now is unknown. */
  readonly digest: string
}

export class StreamStates {
  readonly #chain = new BankChain()
  /** Of transactions filters that ask for it. */
  readonly joined = new JoinedStates(this.#chain)
  readonly #states = new Map<string, State>()
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
