// Converts a TransactionError of the Solana runtime between RPC's JSON and geyser's bincode.

/** The JSON-RPC form: a name, or an object with one name. */
export type TransactionError =
  | string
  | { readonly InstructionError: readonly [number, InstructionError] }
  | { readonly DuplicateInstruction: number }
  | { readonly InsufficientFundsForRent: { readonly account_index: number } }
  | { readonly ProgramExecutionTemporarilyRestricted: { readonly account_index: number } }

export type InstructionError = string | { readonly Custom: number }

// The order is that of the runtime's enum, whose number bincode writes as u32.
const transactionErrors = `AccountInUse AccountLoadedTwice AccountNotFound ProgramAccountNotFound
  InsufficientFundsForFee InvalidAccountForFee AlreadyProcessed BlockhashNotFound InstructionError
  CallChainTooDeep MissingSignatureForFee InvalidAccountIndex SignatureFailure
  InvalidProgramForExecution SanitizeFailure ClusterMaintenance AccountBorrowOutstanding
  WouldExceedMaxBlockCostLimit UnsupportedVersion InvalidWritableAccount
  WouldExceedMaxAccountCostLimit WouldExceedAccountDataBlockLimit TooManyAccountLocks
  AddressLookupTableNotFound InvalidAddressLookupTableOwner InvalidAddressLookupTableData
  InvalidAddressLookupTableIndex InvalidRentPayingAccount WouldExceedMaxVoteCostLimit
  WouldExceedAccountDataTotalLimit DuplicateInstruction InsufficientFundsForRent
  MaxLoadedAccountsDataSizeExceeded InvalidLoadedAccountsDataSizeLimit ResanitizationNeeded
  ProgramExecutionTemporarilyRestricted UnbalancedTransaction ProgramCacheHitMaxLimit
  CommitCancelled`.split(/\s+/)

export const instructionErrors =
  `GenericError InvalidArgument InvalidInstructionData InvalidAccountData
  AccountDataTooSmall InsufficientFunds IncorrectProgramId MissingRequiredSignature
  AccountAlreadyInitialized UninitializedAccount UnbalancedInstruction ModifiedProgramId
  ExternalAccountLamportSpend ExternalAccountDataModified ReadonlyLamportChange
  ReadonlyDataModified DuplicateAccountIndex ExecutableModified RentEpochModified
  NotEnoughAccountKeys AccountDataSizeChanged AccountNotExecutable AccountBorrowFailed
  AccountBorrowOutstanding DuplicateAccountOutOfSync Custom InvalidError ExecutableDataModified
  ExecutableLamportChange ExecutableAccountNotRentExempt UnsupportedProgramId CallDepth
  MissingAccount ReentrancyNotAllowed MaxSeedLengthExceeded InvalidSeeds InvalidRealloc
  ComputationalBudgetExceeded PrivilegeEscalation ProgramEnvironmentSetupFailure
  ProgramFailedToComplete ProgramFailedToCompile Immutable IncorrectAuthority BorshIoError
  AccountNotRentExempt InvalidAccountOwner ArithmeticOverflow UnsupportedSysvar IllegalOwner
  MaxAccountsDataAllocationsExceeded MaxAccountsExceeded MaxInstructionTraceLengthExceeded
  BuiltinProgramsMustConsumeComputeUnits`.split(/\s+/)

const transactionErrorNumber = new Map(transactionErrors.map((name, index) => [name, index]))
const instructionErrorNumber = new Map(instructionErrors.map((name, index) => [name, index]))
const sanitizeFailure = transactionErrorNumber.get('SanitizeFailure')!

/** The error in bincode, as in geyser's TransactionError.err. */
export function encodeTransactionError(error: TransactionError): Uint8Array {
  if (typeof error === 'string') return u32(transactionErrorNumber.get(error) ?? sanitizeFailure)
  const [name, value] = Object.entries(error)[0]!
  const head = u32(transactionErrorNumber.get(name)!)
  if ('InstructionError' in error) {
    const [index, inner] = error.InstructionError
    return Buffer.concat([head, Uint8Array.of(index), encodeInstructionError(inner)])
  }
  const index =
    typeof value === 'number' ? value : (value as { account_index: number }).account_index
  return Buffer.concat([head, Uint8Array.of(index)])
}

/** Decodes a bincode error; null for bytes that are not one. */
export function decodeTransactionError(bytes: Uint8Array): TransactionError | null {
  const view = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
  if (view.length < 4) return null
  const name = transactionErrors[view.readUInt32LE(0)]
  if (name === undefined) return null
  const index = view[4]
  switch (name) {
    case 'InstructionError': {
      if (index === undefined || view.length < 9) return null
      const inner = instructionErrors[view.readUInt32LE(5)]
      if (inner === undefined) return null
      if (inner !== 'Custom') return { InstructionError: [index, inner] }
      return view.length < 13
        ? null
        : { InstructionError: [index, { Custom: view.readUInt32LE(9) }] }
    }
    case 'DuplicateInstruction':
      return index === undefined ? null : { DuplicateInstruction: index }
    case 'InsufficientFundsForRent':
      return index === undefined ? null : { InsufficientFundsForRent: { account_index: index } }
    case 'ProgramExecutionTemporarilyRestricted':
      return index === undefined
        ? null
        : { ProgramExecutionTemporarilyRestricted: { account_index: index } }
    default:
      return name
  }
}

function encodeInstructionError(error: InstructionError): Uint8Array {
  if (typeof error === 'string') return u32(instructionErrorNumber.get(error) ?? 0)
  return Buffer.concat([u32(instructionErrorNumber.get('Custom')!), u32(error.Custom)])
}

function u32(value: number): Uint8Array {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32LE(value)
  return bytes
}
