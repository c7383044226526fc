// Turns litesvm's outcome of a transaction into plain values. Thread: main of the devnode.
// It knows litesvm's objects by their shape: svm.ts alone imports litesvm.
import type { InstructionError, TransactionError } from '../chain/solana/transaction-error.ts'
import type { Executed, Keys, VmAccount } from './executed.ts'

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

const instructionErrors = `GenericError InvalidArgument InvalidInstructionData InvalidAccountData
  AccountDataTooSmall InsufficientFunds IncorrectProgramId MissingRequiredSignature
  AccountAlreadyInitialized UninitializedAccount UnbalancedInstruction ModifiedProgramId
  ExternalAccountLamportSpend ExternalAccountDataModified ReadonlyLamportChange
  ReadonlyDataModified DuplicateAccountIndex ExecutableModified RentEpochModified
  NotEnoughAccountKeys AccountDataSizeChanged AccountNotExecutable AccountBorrowFailed
  AccountBorrowOutstanding DuplicateAccountOutOfSync InvalidError ExecutableDataModified
  ExecutableLamportChange ExecutableAccountNotRentExempt UnsupportedProgramId CallDepth
  MissingAccount ReentrancyNotAllowed MaxSeedLengthExceeded InvalidSeeds InvalidRealloc
  ComputationalBudgetExceeded PrivilegeEscalation ProgramEnvironmentSetupFailure
  ProgramFailedToComplete ProgramFailedToCompile Immutable IncorrectAuthority
  AccountNotRentExempt InvalidAccountOwner ArithmeticOverflow UnsupportedSysvar IllegalOwner
  MaxAccountsDataAllocationsExceeded MaxAccountsExceeded MaxInstructionTraceLengthExceeded
  BuiltinProgramsMustConsumeComputeUnits BorshIoError`.split(/\s+/)

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
