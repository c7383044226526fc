// What goes into the VM and what comes out of it, as plain values. Thread: main (types only).
import type { AccountState } from '../solana/geyser-content.ts'
import type { TransactionError } from '../solana/transaction-error.ts'

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
  /** False when the VM refused it before taking the fee: it never lands in a block. */
  readonly isCharged: boolean
  readonly logs: readonly string[]
  readonly units: bigint
  readonly inner: readonly { readonly index: number; readonly instructions: VmInstruction[] }[]
  readonly returnData: { readonly programId: Uint8Array; readonly data: Uint8Array } | null
  readonly loadedWritable: readonly Uint8Array[]
  readonly loadedReadonly: readonly Uint8Array[]
  /** State after it of everything it wrote, in the order of its keys. */
  readonly accounts: readonly VmAccount[]
}

/** The outcome of a transaction that the VM did not run. */
export function notExecuted(err: TransactionError): Executed {
  return {
    err,
    isCharged: false,
    logs: [],
    units: 0n,
    inner: [],
    returnData: null,
    loadedWritable: [],
    loadedReadonly: [],
    accounts: [],
  }
}
