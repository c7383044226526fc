// Account updates of an exact size, for benches of the gRPC streams. Thread: any.
import type { AccountContent, TransactionContent } from '../../../src/chain/solana/geyser-decode.ts'
import { accountUpdate } from '../../../src/chain/solana/received-batch.ts'
import {
  createdAtSuffix,
  FrameBatch,
  namePrefix,
  SlabPool,
  updateTag,
} from '../../../src/streams/geyser/frame.ts'

const contents = new Map<number, AccountContent>()
/** Slots from here to two million take three bytes, so that lengths stay the same. */
export const firstSlot = 20_000
export const createdAtMs = 1_700_000_000_000
const moment = { slot: firstSlot, createdAtMs }
const prefix = namePrefix('a')

/** An account whose update, with a one-letter filter name, is `length` bytes long. */
export function messageOf(length: number): AccountContent {
  const known = contents.get(length)
  if (known !== undefined) return known
  for (let dataBytes = Math.max(1, length - 160); dataBytes <= length; dataBytes++) {
    const content = accountOf(dataBytes)
    if (sizeOf(content) === length) {
      contents.set(length, content)
      return content
    }
  }
  throw new Error(`no account makes a message of ${length} bytes`)
}

/** A transaction of about 1 kB: ten keys, eight lines of log. */
export const transactionContent: TransactionContent = {
  signatures: [new Uint8Array(64).fill(5)],
  isVote: false,
  index: 0,
  message: {
    numRequiredSignatures: 1,
    numReadonlySignedAccounts: 0,
    numReadonlyUnsignedAccounts: 1,
    accountKeys: Array.from({ length: 10 }, (_, index) => new Uint8Array(32).fill(index)),
    recentBlockhash: new Uint8Array(32).fill(9),
    instructions: [
      { programIdIndex: 9, accounts: new Uint8Array(9), data: new Uint8Array(40).fill(1) },
    ],
    versioned: false,
    config: null,
    addressTableLookups: [],
  },
  meta: {
    err: null,
    fee: 5_000n,
    preBalances: Array.from({ length: 10 }, () => 1_000_000n),
    postBalances: Array.from({ length: 10 }, () => 1_000_000n),
    innerInstructions: [],
    logMessages: Array.from({ length: 8 }, () => 'Program log: Instruction: Transfer of tokens'),
    preTokenBalances: [],
    postTokenBalances: [],
    rewards: [],
    loadedWritableAddresses: [],
    loadedReadonlyAddresses: [],
    returnData: null,
    computeUnitsConsumed: 4_000n,
    costUnits: null,
  },
}

/** `count` frames of such messages, one after the other. */
export function framesOf(length: number, count: number): Buffer {
  const batch = new FrameBatch(new SlabPool())
  const { body } = accountUpdate(moment, messageOf(length))
  for (let index = 0; index < count; index++)
    batch.append(updateTag.account, prefix, body, createdAtSuffix(moment.createdAtMs))
  return Buffer.concat(batch.take().map(({ bytes }) => bytes))
}

function accountOf(dataBytes: number): AccountContent {
  return {
    pubkey: new Uint8Array(32).fill(1),
    lamports: 1_000_000n,
    owner: new Uint8Array(32).fill(2),
    executable: false,
    rentEpoch: 0n,
    data: new Uint8Array(dataBytes).fill(3),
    writeVersion: 7n,
    txnSignature: null,
  }
}

function sizeOf(content: AccountContent): number {
  const { body } = accountUpdate(moment, content)
  const batch = new FrameBatch(new SlabPool())
  batch.append(updateTag.account, prefix, body, createdAtSuffix(moment.createdAtMs))
  return batch.bytes - 5
}
