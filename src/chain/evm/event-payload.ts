// Types of execution events, offsets of the fields in each payload, and the length it must have.
// A u256 is four u64 limbs, low limb first; hashes and addresses are raw big-endian bytes.
// Hashes and storage keys have 32 bytes, addresses 20.
import { readU32, readU64 } from './words.ts'

// Event types of execution events and their codes on the wire.
// Codes are those of the schema named in event-ring.ts; the older schema has other codes.

export const EventType = {
  RecordError: 1,
  BlockStart: 2,
  BlockReject: 3,
  BlockPerfEvmEnter: 4,
  BlockPerfEvmExit: 5,
  BlockEnd: 6,
  BlockQc: 7,
  BlockFinalized: 8,
  BlockVerified: 9,
  TxnHeaderStart: 10,
  TxnAccessListEntry: 11,
  TxnAuthListEntry: 12,
  TxnHeaderEnd: 13,
  TxnReject: 14,
  TxnPerfEvmEnter: 15,
  TxnPerfEvmExit: 16,
  TxnEvmOutput: 17,
  TxnLog: 18,
  TxnCallFrame: 19,
  TxnEnd: 20,
  AccountAccessListHeader: 21,
  AccountAccess: 22,
  StorageAccess: 23,
  EvmError: 24,
} as const

export const eventTypeMax = EventType.EvmError

/** 0 u16 kind (1 over 4 GiB, 2 expired on creation, 3 missing). */
export const recordError = {
  size: 16,
  kind: 0,
  droppedType: 2,
  truncatedSize: 4,
  requestedSize: 8,
} as const

export const blockStart = {
  size: 528,
  id: 0,
  blockNumber: 32,
  round: 40,
  epoch: 48,
  /** u128, ns since 1970. */
  proposalTimeNs: 64,
  chainId: 80,
  authorParity: 112,
  authorX: 113,
  parentHash: 145,
  ommersHash: 184,
  beneficiary: 216,
  transactionsRoot: 236,
  difficulty: 272,
  number: 280,
  gasLimit: 288,
  /** Seconds since 1970. */
  timestamp: 296,
  extraData: 304,
  extraDataLength: 336,
  prevRandao: 344,
  nonce: 376,
  baseFee: 384,
  withdrawalsRoot: 416,
  txnCount: 448,
  baseFeeTrend: 456,
  baseFeeMoment: 488,
} as const

export const blockReject = { size: 4, reason: 0 } as const

export const blockEnd = {
  size: 360,
  ethHash: 0,
  stateRoot: 32,
  receiptsRoot: 64,
  logsBloom: 96,
  logsBloomBytes: 256,
  gasUsed: 352,
} as const

export const blockQc = { size: 56, id: 0, blockNumber: 32, round: 40, epoch: 48 } as const
export const blockFinalized = { size: 40, id: 0, blockNumber: 32 } as const
export const blockVerified = { size: 8, blockNumber: 0 } as const

/** Followed by the call data, then 32 bytes per blob hash. */
export const txnHeaderStart = {
  size: 352,
  hash: 0,
  sender: 32,
  type: 56,
  chainId: 64,
  nonce: 96,
  gasLimit: 104,
  maxFee: 112,
  maxPriorityFee: 144,
  value: 176,
  to: 208,
  isCreation: 228,
  r: 232,
  s: 264,
  parity: 296,
  maxBlobFee: 304,
  dataLength: 336,
  blobCount: 340,
  accessListCount: 344,
  authListCount: 348,
} as const

/** Followed by 32 bytes per key. */
export const txnAccessListEntry = { size: 28, index: 0, address: 4, keyCount: 24 } as const

export const txnAuthListEntry = {
  size: 168,
  index: 0,
  chainId: 8,
  address: 40,
  nonce: 64,
  parity: 72,
  r: 80,
  s: 112,
  authority: 144,
  isValid: 164,
} as const

export const txnReject = { size: 4, reason: 0 } as const
export const txnEvmOutput = {
  size: 24,
  status: 0,
  logCount: 4,
  gasUsed: 8,
  callFrameCount: 16,
} as const

/** Followed by 32 bytes per topic, then the data. */
export const txnLog = { size: 32, index: 0, address: 4, topicCount: 24, dataLength: 28 } as const

/** Followed by the input, then the returned bytes. */
export const txnCallFrame = {
  size: 128,
  index: 0,
  caller: 4,
  target: 24,
  opcode: 44,
  value: 48,
  gas: 80,
  gasUsed: 88,
  status: 96,
  depth: 104,
  inputLength: 112,
  returnLength: 120,
} as const

export const accountAccessListHeader = { size: 8, count: 0, context: 4 } as const

/** Where an access happened. */
export const AccessContext = { Prologue: 0, Transaction: 1, Epilogue: 2 } as const

export const accountAccess = {
  size: 152,
  index: 0,
  address: 4,
  context: 24,
  isBalanceModified: 25,
  isNonceModified: 26,
  nonce: 32,
  balance: 40,
  codeHash: 72,
  newBalance: 104,
  newNonce: 136,
  storageKeyCount: 144,
  transientKeyCount: 148,
} as const

export const storageAccess = {
  size: 124,
  address: 0,
  index: 20,
  context: 24,
  isModified: 25,
  isTransient: 26,
  key: 27,
  startValue: 59,
  endValue: 91,
} as const

const evmError = { size: 16, domain: 0, code: 8 } as const

/** Bytes of the fixed fields by event type; -1 where the type is unknown. */
const fixedBytes = new Int32Array(EventType.EvmError + 1).fill(-1)
fixedBytes[EventType.RecordError] = recordError.size
fixedBytes[EventType.BlockStart] = blockStart.size
fixedBytes[EventType.BlockReject] = blockReject.size
fixedBytes[EventType.BlockPerfEvmEnter] = 0
fixedBytes[EventType.BlockPerfEvmExit] = 0
fixedBytes[EventType.BlockEnd] = blockEnd.size
fixedBytes[EventType.BlockQc] = blockQc.size
fixedBytes[EventType.BlockFinalized] = blockFinalized.size
fixedBytes[EventType.BlockVerified] = blockVerified.size
fixedBytes[EventType.TxnHeaderStart] = txnHeaderStart.size
fixedBytes[EventType.TxnAccessListEntry] = txnAccessListEntry.size
fixedBytes[EventType.TxnAuthListEntry] = txnAuthListEntry.size
fixedBytes[EventType.TxnHeaderEnd] = 0
fixedBytes[EventType.TxnReject] = txnReject.size
fixedBytes[EventType.TxnPerfEvmEnter] = 0
fixedBytes[EventType.TxnPerfEvmExit] = 0
fixedBytes[EventType.TxnEvmOutput] = txnEvmOutput.size
fixedBytes[EventType.TxnLog] = txnLog.size
fixedBytes[EventType.TxnCallFrame] = txnCallFrame.size
fixedBytes[EventType.TxnEnd] = 0
fixedBytes[EventType.AccountAccessListHeader] = accountAccessListHeader.size
fixedBytes[EventType.AccountAccess] = accountAccess.size
fixedBytes[EventType.StorageAccess] = storageAccess.size
fixedBytes[EventType.EvmError] = evmError.size

/**
 * The length that a payload's own length fields give, or -1 when the type is unknown or the payload
 * is shorter than its fixed fields. Equal to `length` for every well-formed event.
 */
export function computedPayloadSize(
  type: number,
  payload: Uint8Array,
  at = 0,
  length = payload.length,
): number {
  const fixed = fixedBytes[type] ?? -1
  if (fixed < 0 || length < fixed) return -1
  switch (type) {
    case EventType.TxnHeaderStart:
      return (
        fixed +
        readU32(payload, at + txnHeaderStart.dataLength) +
        32 * readU32(payload, at + txnHeaderStart.blobCount)
      )
    case EventType.TxnAccessListEntry:
      return fixed + 32 * readU32(payload, at + txnAccessListEntry.keyCount)
    case EventType.TxnLog:
      return (
        fixed + 32 * payload[at + txnLog.topicCount]! + readU32(payload, at + txnLog.dataLength)
      )
    case EventType.TxnCallFrame:
      return (
        fixed +
        readU64(payload, at + txnCallFrame.inputLength) +
        readU64(payload, at + txnCallFrame.returnLength)
      )
    default:
      return fixed
  }
}

/** True when reading the event by the layouts above stays within its bytes. */
export function isWellFormed(
  type: number,
  payload: Uint8Array,
  at = 0,
  length = payload.length,
): boolean {
  return computedPayloadSize(type, payload, at, length) === length
}
