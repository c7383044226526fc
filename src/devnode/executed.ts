// What goes into the VM and what comes out of it, as plain values.
import type { AccountState } from '../chain/solana/geyser-content.ts'
import type { TransactionError } from '../chain/solana/transaction-error.ts'

/** An account with 0 lamports does not exist. */
export type VmAccount = AccountState

interface VmInstruction {
  readonly programIdIndex: number
  readonly accounts: Uint8Array
  readonly data: Uint8Array
  readonly stackHeight: number
}

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
