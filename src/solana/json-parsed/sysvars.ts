// Parses sysvar accounts for `jsonParsed`. Thread: any (pure).
import { encodeBase58 } from '../base58.ts'
import { Cursor } from '../cursor.ts'
import { keyOf } from '../keys.ts'
import { sysvars } from '../programs.ts'
import type { Parsed, ParsedAccount } from './parsed.ts'

type Read = (cursor: Cursor) => unknown

const readers = new Map<string, { readonly type: string; readonly read: Read }>([
  [keyOf(sysvars.clock), { type: 'clock', read: readClock }],
  [keyOf(sysvars.rent), { type: 'rent', read: readRent }],
  [keyOf(sysvars.epochSchedule), { type: 'epochSchedule', read: readEpochSchedule }],
  [keyOf(sysvars.slotHashes), { type: 'slotHashes', read: readSlotHashes }],
  [keyOf(sysvars.recentBlockhashes), { type: 'recentBlockhashes', read: readBlockhashes }],
  [
    keyOf(sysvars.lastRestartSlot),
    { type: 'lastRestartSlot', read: (cursor) => ({ lastRestartSlot: cursor.u64() }) },
  ],
])

export function parsedSysvar({ pubkey, data }: ParsedAccount): Parsed | null {
  const reader = readers.get(keyOf(pubkey))
  if (reader === undefined) return null
  const cursor = new Cursor(data)
  const info = reader.read(cursor)
  return cursor.isShort ? null : { info, type: reader.type }
}

function readClock(cursor: Cursor) {
  const slot = cursor.u64()
  const epochStartTimestamp = cursor.i64()
  const epoch = cursor.u64()
  const leaderScheduleEpoch = cursor.u64()
  const unixTimestamp = cursor.i64()
  return { epoch, epochStartTimestamp, leaderScheduleEpoch, slot, unixTimestamp }
}

function readRent(cursor: Cursor) {
  const lamportsPerByteYear = String(cursor.u64())
  const exemptionThreshold = cursor.f64()
  return { burnPercent: cursor.u8(), exemptionThreshold, lamportsPerByteYear }
}

function readEpochSchedule(cursor: Cursor) {
  const slotsPerEpoch = cursor.u64()
  const leaderScheduleSlotOffset = cursor.u64()
  const warmup = cursor.u8() === 1
  const firstNormalEpoch = cursor.u64()
  const firstNormalSlot = cursor.u64()
  return { firstNormalEpoch, firstNormalSlot, leaderScheduleSlotOffset, slotsPerEpoch, warmup }
}

function readSlotHashes(cursor: Cursor) {
  return readEach(cursor, () => {
    const slot = cursor.u64()
    return { hash: encodeBase58(cursor.key()), slot }
  })
}

function readBlockhashes(cursor: Cursor) {
  return readEach(cursor, () => {
    const blockhash = encodeBase58(cursor.key())
    return { blockhash, feeCalculator: { lamportsPerSignature: String(cursor.u64()) } }
  })
}

/** Reads the items after their count, or fewer when the data ends first. */
function readEach<T>(cursor: Cursor, read: () => T): T[] {
  const count = cursor.u64()
  const found: T[] = []
  while (BigInt(found.length) < count && !cursor.isShort) found.push(read())
  return found
}
