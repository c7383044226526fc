// Parses accounts of the stake program for `jsonParsed`. Thread: any (pure).
//
//   tag u32 | rent reserve u64 | staker[32] withdrawer[32] | lockup: time i64, epoch u64, key[32]
//   tag 2 also: voter[32] stake u64 activation u64 deactivation u64 rate f64 | credits u64
import { Cursor } from '../cursor.ts'
import { keyText } from '../key-text.ts'
import type { Parsed, ParsedAccount } from './parsed.ts'

export function parsedStake({ data }: ParsedAccount): Parsed | null {
  const cursor = new Cursor(data)
  const tag = cursor.u32()
  if (cursor.isShort || tag > 3) return null
  if (tag === 0) return { info: null, type: 'uninitialized' }
  if (tag === 3) return { info: null, type: 'rewardsPool' }
  const meta = readMeta(cursor)
  const stake = tag === 2 ? readStake(cursor) : null
  if (cursor.isShort) return null
  return { info: { meta, stake }, type: tag === 2 ? 'delegated' : 'initialized' }
}

function readMeta(cursor: Cursor) {
  const rentExemptReserve = String(cursor.u64())
  const staker = keyText(cursor.key())
  const withdrawer = keyText(cursor.key())
  const unixTimestamp = cursor.i64()
  const epoch = cursor.u64()
  const custodian = keyText(cursor.key())
  return {
    authorized: { staker, withdrawer },
    lockup: { custodian, epoch, unixTimestamp },
    rentExemptReserve,
  }
}

function readStake(cursor: Cursor) {
  const voter = keyText(cursor.key())
  const stake = String(cursor.u64())
  const activationEpoch = String(cursor.u64())
  const deactivationEpoch = String(cursor.u64())
  const warmupCooldownRate = cursor.f64()
  return {
    creditsObserved: cursor.u64(),
    delegation: { activationEpoch, deactivationEpoch, stake, voter, warmupCooldownRate },
  }
}
