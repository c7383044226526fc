// Executes transactions in litesvm, synchronously. Thread: main of the devnode.
// The only importer of litesvm, which aborts the process on malformed bytes: everything is decoded
// strictly first. The VM verifies signatures where the caller has not; it checks no blockhash and
// keeps no history: the chain and its ledger do.
import { Account, type FailedTransactionMetadata, LiteSvm } from 'litesvm/dist/internal.js'
import { isSameKey } from '../solana/keys.ts'
import { programs, sysvarOwner } from '../solana/programs.ts'
import { TransactionLayout } from '../solana/transaction.ts'
import type { TransactionError } from '../solana/transaction-error.ts'
import { type Executed, notExecuted, type VmAccount } from './executed.ts'
import { lookedUp } from './lookup-table.ts'
import { durableNonce, isNonceAccount, nonceOf, withNonce } from './nonce.ts'
import { executed, type Keys, readError } from './svm-outcome.ts'

const empty = new Uint8Array(0)
/** As a validator's default. */
const logBytesMax = 10_000n
const malformed = notExecuted('SanitizeFailure')

export class Svm {
  readonly #vm = new LiteSvm()
  readonly #layout = new TransactionLayout()

  constructor() {
    this.#vm.setBlockhashCheck(false)
    this.#vm.setTransactionHistory(0n)
    this.#vm.setLogBytesLimit(logBytesMax)
  }

  /** Returns how many of them the VM refused: a program whose code it cannot load. */
  load(accounts: Iterable<VmAccount>): number {
    let refusedCount = 0
    for (const account of accounts) {
      try {
        this.#write(account)
      } catch {
        refusedCount += 1
      }
    }
    return refusedCount
  }

  /** Those of these accounts that a new VM has, with the code of upgradeable programs. */
  genesis(keys: readonly Uint8Array[]): VmAccount[] {
    const accounts = keys.map((key) => this.#read(key)).filter(({ lamports }) => lamports > 0n)
    // A program of the upgradeable loader has its code in an account of its own.
    const code = accounts.filter(isUpgradeable).map(({ data }) => this.#read(data.subarray(4)))
    return [...accounts, ...code.filter(({ lamports }) => lamports > 0n)]
  }

  /** Executes a transaction and keeps nothing. */
  simulate(bytes: Uint8Array, { mustVerify }: { readonly mustVerify: boolean }): Executed {
    if (this.#layout.decode(bytes) !== 'ok') return malformed
    const keys = this.#keys(bytes)
    this.#vm.setSigverify(mustVerify)
    const outcome = this.#vm.simulateVersionedTransaction(bytes)
    if (isFailure(outcome))
      return executed(outcome.meta(), { keys, err: this.#errorOf(outcome, keys), accounts: [] })
    const accounts = outcome
      .postAccounts()
      .map((post) => fromVm(new Uint8Array(post.address), post.account()))
    return executed(outcome.meta(), { keys, err: null, accounts })
  }

  /**
   * Executes a transaction and keeps what it wrote. `nonceIndex`: index among its keys of the
   * durable nonce account that it uses, -1 without one. `nonce`: the value of a nonce that is set
   * or advanced now. `mustVerify`: whether its signatures are verified.
   */
  execute(
    bytes: Uint8Array,
    options: {
      readonly nonceIndex: number
      readonly nonce: Uint8Array
      readonly mustVerify: boolean
    },
  ): Executed {
    const { nonceIndex, nonce, mustVerify } = options
    if (this.#layout.decode(bytes) !== 'ok') return malformed
    const keys = this.#keys(bytes)
    const payer = keys.all[0]!
    const before = this.#vm.getBalance(payer)
    this.#vm.setSigverify(mustVerify)
    const outcome = this.#vm.sendVersionedTransaction(bytes)
    if (!isFailure(outcome)) {
      const accounts = this.#written(bytes, keys, nonce)
      return executed(outcome, { keys, err: null, accounts })
    }
    const err = this.#errorOf(outcome, keys)
    if (this.#vm.getBalance(payer) === before)
      return { ...executed(outcome.meta(), { keys, err, accounts: [] }), isCharged: false }
    // A transaction that fails pays, and uses up its nonce; nothing else of it stays.
    const accounts = [this.#read(payer)]
    if (nonceIndex > 0) {
      const account = withNonce(this.#read(keys.all[nonceIndex]!), nonce)
      this.#write(account)
      accounts.push(account)
    }
    return executed(outcome.meta(), { keys, err, accounts })
  }

  /** The VM has one error for a missing program and one that cannot run; validators have two. */
  #errorOf(outcome: FailedTransactionMetadata, { all }: Keys): TransactionError {
    const err = readError(outcome.err())
    if (err !== 'InvalidProgramForExecution') return err
    const used = this.#layout.programIndex.subarray(0, this.#layout.instructionCount)
    const isMissing = used.some((index) => this.#vm.getAccount(all[index]!) === null)
    return isMissing ? 'ProgramAccountNotFound' : err
  }

  /** The writable accounts of the transaction after its execution. */
  #written(bytes: Uint8Array, { all }: Keys, nonce: Uint8Array): VmAccount[] {
    const written: VmAccount[] = []
    for (let index = 0; index < all.length; index++) {
      if (!this.#layout.isWritable(index)) continue
      const account = this.#read(all[index]!)
      // The runtime never writes these, whatever the message requests.
      const isReserved =
        isSameKey(account.owner, sysvarOwner) || isSameKey(account.owner, programs.nativeLoader)
      if (!isReserved) written.push(this.#renewed(bytes, account, nonce))
    }
    return written
  }

  /**
   * The VM makes nonces of the transaction's own blockhash; a validator of its newest one. A value
   * of the VM's making is therefore one that this transaction has set, and is replaced.
   */
  #renewed(bytes: Uint8Array, account: VmAccount, nonce: Uint8Array): VmAccount {
    if (!isNonceAccount(account.owner, account.data)) return account
    const at = this.#layout.blockhashAt
    const made = durableNonce(bytes.subarray(at, at + 32))
    if (!isSameKey(nonceOf(account.data), made)) return account
    const renewed = withNonce(account, nonce)
    this.#write(renewed)
    return renewed
  }

  /** Static keys and those of lookup tables; none of the latter when a table is not usable. */
  #keys(bytes: Uint8Array): Keys {
    const layout = this.#layout
    const own = Array.from({ length: layout.keyCount }, (_, index) =>
      bytes.subarray(layout.keysAt + index * 32, layout.keysAt + index * 32 + 32),
    )
    const loaded = lookedUp(layout, bytes, (table) => this.#vm.getAccount(table)?.data() ?? null)
    const { writable, readonly } = loaded ?? { writable: [], readonly: [] }
    const all = [...own, ...writable, ...readonly]
    return { all, loadedWritable: writable, loadedReadonly: readonly }
  }

  #read(pubkey: Uint8Array): VmAccount {
    const account = this.#vm.getAccount(pubkey)
    if (account !== null) return fromVm(pubkey, account)
    const nothing = { lamports: 0n, executable: false, rentEpoch: 0n, data: empty }
    return { pubkey, owner: programs.system, ...nothing }
  }

  #write({ pubkey, lamports, data, owner, executable, rentEpoch }: VmAccount): void {
    this.#vm.setAccount(pubkey, new Account(lamports, data, owner, executable, rentEpoch))
  }
}

function fromVm(pubkey: Uint8Array, account: Account): VmAccount {
  return {
    pubkey,
    lamports: account.lamports(),
    owner: account.owner(),
    executable: account.executable(),
    rentEpoch: account.rentEpoch(),
    data: account.data(),
  }
}

function isFailure(outcome: object): outcome is FailedTransactionMetadata {
  return 'err' in outcome
}

function isUpgradeable({ owner, data }: VmAccount): boolean {
  return data.length === 36 && isSameKey(owner, programs.upgradeableLoader)
}
