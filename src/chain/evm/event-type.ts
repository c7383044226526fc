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
