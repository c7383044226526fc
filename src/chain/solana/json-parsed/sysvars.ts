// Parses sysvar accounts for `jsonParsed`.
import { Cursor } from '../cursor.ts'
import { keyOf } from '../keys.ts'
import { sysvars } from '../programs.ts'
import { layout, list, type Read } from './layout.ts'
import type { Parsed, ParsedAccount } from './parsed.ts'

const kinds = {
  feeCalculator: layout('lamportsPerSignature:string'),
  stake: layout('effective:u64 activating:u64 deactivating:u64'),
}

const readers: Readonly<Partial<Record<keyof typeof sysvars, Read>>> = {
  clock: layout(`slot:u64 epochStartTimestamp:i64 epoch:u64 leaderScheduleEpoch:u64
    unixTimestamp:i64`),
  epochRewards: layout(`distributionStartingBlockHeight:u64 numPartitions:u64 parentBlockhash:hash
    totalPoints:string128 totalRewards:string distributedRewards:string active:bool`),
  epochSchedule: layout(`slotsPerEpoch:u64 leaderScheduleSlotOffset:u64 warmup:bool
    firstNormalEpoch:u64 firstNormalSlot:u64`),
  fees: layout('feeCalculator:feeCalculator', kinds),
  lastRestartSlot: layout('lastRestartSlot:u64'),
  recentBlockhashes: list(layout('blockhash:hash feeCalculator:feeCalculator', kinds)),
  rent: layout('lamportsPerByteYear:string exemptionThreshold:f64 burnPercent:u8'),
  rewards: layout('validatorPointValue:f64 _:f64'),
  slotHashes: list(layout('slot:u64 hash:hash')),
  slotHistory: layout('bits:bits nextSlot:u64', { bits: readBits }),
  stakeHistory: list(layout('epoch:u64 stakeHistory:stake', kinds)),
}

const known = new Map(
  Object.entries(readers).map(([type, read]) => [
    // Reason for the cast: the table's type admits no other names.
    keyOf(sysvars[type as keyof typeof sysvars]),
    { type, read },
  ]),
)

export function parsedSysvar({ pubkey, data }: ParsedAccount): Parsed | null {
  const sysvar = known.get(keyOf(pubkey))
  if (sysvar === undefined) return null
  const cursor = new Cursor(data)
  const info = sysvar.read(cursor)
  return cursor.isShort ? null : { info, type: sysvar.type }
}

/** Every slot history has as many bits: one for each of its last slots. */
const historyBits = 1024 * 1024
const zeroCharacter = 48

/** present u8 | words u64 | u64… | bits u64: one character per bit, slot 0 first. */
function readBits(cursor: Cursor): string {
  const isPresent = cursor.choice(2) === 1
  const words = isPresent ? cursor.u64() : 0n
  const bytes = words * 8n > cursor.left ? null : cursor.bytes(Number(words) * 8)
  if (bytes === null || cursor.u64() < historyBits || bytes.length * 8 < historyBits) {
    cursor.isShort = true
    return ''
  }
  const text = Buffer.alloc(historyBits)
  for (let slot = 0; slot < historyBits; slot++)
    text[slot] = zeroCharacter + ((bytes[slot >> 3]! >> (slot & 7)) & 1)
  return text.toString('latin1')
}
