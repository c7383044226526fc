// Executes transactions in litesvm, synchronously. Thread: main of the devnode.
// The only importer of litesvm, which aborts the process on malformed bytes: everything is decoded
// strictly first. The VM verifies signatures where the caller has not; it checks no blockhash and
// keeps no history: the chain and its ledger do.
import {
  Account,
  type FailedTransactionMetadata,
  LiteSvm,
  type TransactionMetadata,
} from 'litesvm/dist/internal.js'
import { isSameKey } from '../chain/solana/base58.ts'
import type { AccountState, InstructionContent } from '../chain/solana/geyser-decode.ts'
import { programs, sysvarOwner } from '../chain/solana/programs.ts'
import { TransactionLayout } from '../chain/solana/transaction.ts'
import {
  instructionErrors as bincodeErrors,
  type InstructionError,
  type TransactionError,
} from '../chain/solana/transaction-error.ts'
import type { Fee } from './fee.ts'
import {
  durableNonce,
  isNonceAccount,
  type Load,
  loadOf,
  lookedUp,
  lookupErrors,
  nonceOf,
  withNonce,
} from './load.ts'

const empty = new Uint8Array(0)
/** Of a transaction that lands, as a validator's default; simulations have no limit. */
const logBytesMax = 10_000n
const malformed = notExecuted('SanitizeFailure')
/** Errors of bytes, signatures and lookup tables: nothing else of a transaction is looked at. */
const unsanitary: ReadonlySet<TransactionError> = new Set([
  'SanitizeFailure',
  'SignatureFailure',
  ...lookupErrors,
])
/** Errors with which a transaction that can pay lands without running. */
const loadErrors: ReadonlySet<TransactionError> = new Set([
  'MaxLoadedAccountsDataSizeExceeded',
  'ProgramAccountNotFound',
  'InvalidProgramForExecution',
])

export interface RunOptions {
  /** Whether its signatures are verified. */
  readonly mustVerify: boolean
  readonly fee: Fee
  /** Index among its keys of the durable nonce account that it uses; -1 without one. */
  readonly nonceIndex: number
  /** The value of a nonce that is set or advanced now. */
  readonly nonce: Uint8Array
  /** The newest state of an account in the ledger. */
  account(pubkey: Uint8Array): AccountState | null
}

export class Svm {
  readonly #vm = new LiteSvm()
  readonly #layout = new TransactionLayout({ v1: true })

  constructor() {
    this.#vm.setBlockhashCheck(false)
    this.#vm.setTransactionHistory(0n)
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

  /** Executes a transaction and keeps nothing. `refused`: why the chain would not take it. */
  simulate(
    bytes: Uint8Array,
    options: RunOptions & { readonly refused: TransactionError | null },
  ): Executed {
    if (this.#layout.decode(bytes) !== 'ok') return malformed
    const keys = this.#keys(bytes)
    const load = this.#load(keys, options)
    this.#vm.setSigverify(options.mustVerify)
    this.#vm.setLogBytesLimit(null)
    const outcome = this.#vm.simulateVersionedTransaction(bytes)
    const err = isFailure(outcome) ? readError(outcome.err()) : null
    if (isUnsanitary(err)) return notExecuted(err, keys)
    const refused = options.refused ?? load.refused ?? refusalOf(err)
    if (refused !== null) return notExecuted(refused, keys)
    const unloaded = load.err ?? (isLoadError(err) ? err : null)
    if (unloaded !== null) return feesOnly(unloaded, keys, this.#paid(keys, options))
    const accounts = isFailure(outcome)
      ? this.#paid(keys, options)
      : outcome.postAccounts().map((post) => fromVm(new Uint8Array(post.address), post.account()))
    const meta = outcome.meta()
    return executed(meta, { keys, err, accounts, loadedBytes: load.loadedBytes })
  }

  /** Executes a transaction and keeps what it wrote. */
  execute(bytes: Uint8Array, options: RunOptions): Executed {
    if (this.#layout.decode(bytes) !== 'ok') return malformed
    const keys = this.#keys(bytes)
    const load = this.#load(keys, options)
    const paid = this.#paid(keys, options)
    this.#vm.setSigverify(options.mustVerify)
    this.#vm.setLogBytesLimit(logBytesMax)
    const canRun = load.refused === null && load.err === null
    const outcome = canRun
      ? this.#vm.sendVersionedTransaction(bytes)
      : this.#vm.simulateVersionedTransaction(bytes)
    const err = isFailure(outcome) ? readError(outcome.err()) : null
    const refused = isUnsanitary(err) ? err : (load.refused ?? refusalOf(err))
    if (refused !== null) return notExecuted(refused, keys)
    const { loadedBytes } = load
    if (canRun && !isFailure(outcome)) {
      const accounts = this.#written(bytes, keys, options.nonce)
      return executed(outcome as TransactionMetadata, { keys, err, accounts, loadedBytes })
    }
    // A transaction that fails pays, and uses up its nonce; nothing else of it stays.
    for (const account of paid) this.#write(account)
    const unloaded = load.err ?? (isLoadError(err) ? err : null)
    if (unloaded !== null) return feesOnly(unloaded, keys, paid)
    const meta = (outcome as FailedTransactionMetadata).meta()
    return executed(meta, { keys, err, accounts: paid, loadedBytes })
  }

  #load({ all }: Keys, { fee, account }: RunOptions): Load {
    const vm = this.#vm
    return loadOf(this.#layout, {
      keys: all,
      fee,
      // The VM copies an account to read it, and has a few that the ledger lacks.
      account: (pubkey) => account(pubkey) ?? this.#read(pubkey),
      rentExemptMinimum: (dataBytes) => vm.minimumBalanceForRentExemption(BigInt(dataBytes)),
    })
  }

  /** Payer and nonce account of a transaction that fails, as they are after it. */
  #paid({ all }: Keys, { fee, nonceIndex, nonce }: RunOptions): VmAccount[] {
    const payer = this.#read(all[0]!)
    const charged = { ...payer, lamports: payer.lamports - fee.lamports }
    if (nonceIndex < 0) return [charged]
    if (nonceIndex === 0) return [withNonce(charged, nonce)]
    return [charged, withNonce(this.#read(all[nonceIndex]!), nonce)]
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

function isUnsanitary(err: TransactionError | null): err is TransactionError {
  return err !== null && unsanitary.has(err)
}

/** An error that the VM gives before it takes the fee; null for any other. */
function refusalOf(err: TransactionError | null): TransactionError | null {
  return typeof err === 'string' && !isLoadError(err) ? err : null
}

function isLoadError(err: TransactionError | null): err is TransactionError {
  return err !== null && loadErrors.has(err)
}

function isFailure(outcome: object): outcome is FailedTransactionMetadata {
  return 'err' in outcome
}

export function isUpgradeable({ owner, data }: VmAccount): boolean {
  return data.length === 36 && isSameKey(owner, programs.upgradeableLoader)
}

// Turns litesvm's outcome of a transaction into plain values.
// It knows litesvm's objects by their shape: svm.ts alone imports litesvm.

interface VmMeta {
  logs(): string[]
  computeUnitsConsumed(): bigint
  innerInstructions(): { stackHeight(): number; instruction(): VmCompiled }[][]
  returnData(): { programId(): Uint8Array; data(): Uint8Array }
}

interface VmCompiled {
  programIdIndex(): number
  accounts(): Uint8Array
  data(): Uint8Array
}

// litesvm numbers errors without fields in an order of its own.
const transactionErrors = `AccountInUse AccountLoadedTwice AccountNotFound ProgramAccountNotFound
  InsufficientFundsForFee InvalidAccountForFee AlreadyProcessed BlockhashNotFound CallChainTooDeep
  MissingSignatureForFee InvalidAccountIndex SignatureFailure InvalidProgramForExecution
  SanitizeFailure ClusterMaintenance AccountBorrowOutstanding WouldExceedMaxBlockCostLimit
  UnsupportedVersion InvalidWritableAccount WouldExceedMaxAccountCostLimit
  WouldExceedAccountDataBlockLimit TooManyAccountLocks AddressLookupTableNotFound
  InvalidAddressLookupTableOwner InvalidAddressLookupTableData InvalidAddressLookupTableIndex
  InvalidRentPayingAccount WouldExceedMaxVoteCostLimit WouldExceedAccountDataTotalLimit
  MaxLoadedAccountsDataSizeExceeded ResanitizationNeeded InvalidLoadedAccountsDataSizeLimit
  UnbalancedTransaction ProgramCacheHitMaxLimit CommitCancelled`.split(/\s+/)

/** As in bincode, without the one that has a field, and with BorshIoError as the last. */
const instructionErrors = bincodeErrors.filter((name) => !/^(Custom|BorshIoError)$/.test(name))
instructionErrors.push('BorshIoError')

export function executed(
  meta: VmMeta,
  outcome: {
    readonly keys: Keys
    readonly err: TransactionError | null
    readonly loadedBytes: number
    readonly accounts: readonly VmAccount[]
  },
): Executed {
  const { keys, err, loadedBytes, accounts } = outcome
  const { loadedWritable, loadedReadonly } = keys
  return {
    err,
    isCharged: true,
    logs: meta.logs(),
    units: meta.computeUnitsConsumed(),
    inner: innerOf(meta),
    returnData: returnDataOf(meta),
    loadedWritable,
    loadedReadonly,
    loadedBytes,
    accounts,
  }
}

export function readError(error: unknown): TransactionError {
  if (typeof error === 'number') return transactionErrors[error] ?? 'SanitizeFailure'
  const value = error as {
    index?: number
    accountIndex?: number
    err?(): unknown
    constructor: { name: string }
  }
  if (typeof value.err === 'function')
    return { InstructionError: [value.index ?? 0, readInstructionError(value.err())] }
  if (value.index !== undefined) return { DuplicateInstruction: value.index }
  const place = { account_index: value.accountIndex ?? 0 }
  return value.constructor.name === 'TransactionErrorInsufficientFundsForRent'
    ? { InsufficientFundsForRent: place }
    : { ProgramExecutionTemporarilyRestricted: place }
}

function readInstructionError(error: unknown): InstructionError {
  if (typeof error === 'number') return instructionErrors[error] ?? 'GenericError'
  const { code } = error as { code?: number }
  return code === undefined ? 'BorshIoError' : { Custom: code }
}

function innerOf(meta: VmMeta): Executed['inner'] {
  const groups = meta.innerInstructions().map((group, index) => ({
    index,
    instructions: group.map((inner) => {
      const instruction = inner.instruction()
      return {
        programIdIndex: instruction.programIdIndex(),
        accounts: instruction.accounts(),
        data: instruction.data(),
        stackHeight: inner.stackHeight(),
      }
    }),
  }))
  return groups.filter(({ instructions }) => instructions.length > 0)
}

/** Null when no program returned data; the program id may be set anyway. */
function returnDataOf(meta: VmMeta): Executed['returnData'] {
  const returned = meta.returnData()
  const data = returned.data()
  return data.length === 0 ? null : { programId: returned.programId(), data }
}

// What goes into the VM and what comes out of it, as plain values.

/** An account with 0 lamports does not exist. */
export type VmAccount = AccountState

type VmInstruction = InstructionContent & { readonly stackHeight: number }

export interface Executed {
  readonly err: TransactionError | null
  /** False when it was refused before the fee was taken: it never lands in a block. */
  readonly isCharged: boolean
  /** Null when it never ran, as `inner`: also one that only paid. */
  readonly logs: readonly string[] | null
  readonly units: bigint
  readonly inner:
    | readonly { readonly index: number; readonly instructions: VmInstruction[] }[]
    | null
  readonly returnData: { readonly programId: Uint8Array; readonly data: Uint8Array } | null
  readonly loadedWritable: readonly Uint8Array[]
  readonly loadedReadonly: readonly Uint8Array[]
  /** Bytes of the accounts it loaded, as limits count them. */
  readonly loadedBytes: number
  /** State after it of everything it wrote, in the order of its keys. */
  readonly accounts: readonly VmAccount[]
}

/** Account keys of a transaction, with those of lookup tables. */
export interface Keys {
  readonly all: readonly Uint8Array[]
  readonly loadedWritable: readonly Uint8Array[]
  readonly loadedReadonly: readonly Uint8Array[]
}

/** The outcome of a transaction that neither ran nor paid. */
export function notExecuted(
  err: TransactionError,
  keys?: Pick<Keys, 'loadedWritable' | 'loadedReadonly'>,
): Executed {
  return {
    err,
    isCharged: false,
    logs: null,
    units: 0n,
    inner: null,
    returnData: null,
    loadedWritable: keys?.loadedWritable ?? [],
    loadedReadonly: keys?.loadedReadonly ?? [],
    loadedBytes: 0,
    accounts: [],
  }
}

/** The outcome of one that could not run and only paid. `accounts`: the payer and its nonce. */
export function feesOnly(
  err: TransactionError,
  keys: Keys,
  accounts: readonly VmAccount[],
): Executed {
  const loadedBytes = accounts.reduce((bytes, { data }) => bytes + data.length, 0)
  return { ...notExecuted(err, keys), isCharged: true, loadedBytes, accounts }
}
