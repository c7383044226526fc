// The kinds of execution events and their codes on the wire. Thread: any (constants only).
// Codes are those of the schema named in event-ring.ts; the one before it numbered otherwise.

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

export type EventName = keyof typeof EventType

export const eventTypeMax = EventType.EvmError

const names: readonly (EventName | undefined)[] = Object.entries(EventType).reduce<EventName[]>(
  (list, [name, code]) => {
    list[code] = name as EventName
    return list
  },
  [],
)

/** The name of a code, or `unknown 77`. For logs and errors, never for the hot path. */
export function nameOfEventType(code: number): string {
  return names[code] ?? `unknown ${code}`
}
