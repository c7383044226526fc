// What the server and the executor's child process say to each other. Thread: any (types only).
// Frames are threads/frames.ts; the child answers calls strictly in order, one after the other.
//
//   load     accounts                  -> number      how many of them the VM refused
//   execute  { nonce, jobs }           -> Executed[]  kept in the VM
//   simulate { bytes }                 -> Executed    not kept
//   genesis  keys                      -> { accounts, rent } what the VM was born with
import type { AccountState } from '../solana/geyser-content.ts'
import type { TransactionError } from '../solana/transaction-error.ts'

/** An account with 0 lamports does not exist. */
export type VmAccount = AccountState

export interface ExecuteJob {
  readonly bytes: Uint8Array
  /** Place among the keys of the durable nonce account that it uses; -1 without one. */
  readonly nonceIndex: number
}

export interface ExecuteInput {
  /** What a nonce becomes that is set or advanced now. */
  readonly nonce: Uint8Array
  readonly jobs: readonly ExecuteJob[]
}

export interface VmInstruction {
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

export interface Genesis {
  readonly accounts: readonly VmAccount[]
}
