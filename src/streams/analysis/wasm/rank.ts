// Selects the top elements of each list of ContentionData, in a total order.
// Thread: analysis worker. Inserts into a short list: one comparison rejects most candidates.
import { compareAddress, compareSlot } from './bytes'
import {
  CONTRACT,
  contractCount,
  contracts,
  PAIR,
  pairMask,
  pairs,
  SLOT,
  slotCount,
  slots,
} from './contention'
import { STORAGE_KEY } from './scan'

export const SLOTS_MAX: u32 = 20
export const CONTRACTS_MAX: u32 = 15
export const PAIRS_LISTED_MAX: u32 = 15

/** Writes the addresses of the most contended slots, best first; returns how many. */
export function rankSlots(to: u32): u32 {
  let found: u32 = 0
  for (let index: u32 = 0; index < slotCount; index++) {
    const at = slots + index * SLOT
    if (load<u32>(at, 8) < 2) continue
    if (found == SLOTS_MAX && !slotIsBefore(at, load<u32>(to + (SLOTS_MAX - 1) * 4))) continue
    let place = found < SLOTS_MAX ? found++ : SLOTS_MAX - 1
    for (; place > 0 && slotIsBefore(at, load<u32>(to + (place - 1) * 4)); place--)
      store<u32>(to + place * 4, load<u32>(to + (place - 1) * 4))
    store<u32>(to + place * 4, at)
  }
  return found
}

/** Transactions descending, accesses descending, address, slot. */
function slotIsBefore(a: u32, b: u32): bool {
  if (load<u32>(a, 8) != load<u32>(b, 8)) return load<u32>(a, 8) > load<u32>(b, 8)
  if (load<u32>(a, 12) != load<u32>(b, 12)) return load<u32>(a, 12) > load<u32>(b, 12)
  const byAddress = compareAddress(load<u32>(a), load<u32>(b))
  if (byAddress != 0) return byAddress < 0
  return compareSlot(load<u32>(a) + STORAGE_KEY, load<u32>(b) + STORAGE_KEY) < 0
}

/** Writes the addresses of contracts with contention, best first; returns how many. */
export function rankContracts(to: u32): u32 {
  const limit = CONTRACTS_MAX
  let found: u32 = 0
  for (let index: u32 = 0; index < contractCount; index++) {
    const at = contracts + index * CONTRACT
    if (load<u32>(at, 8) == 0) continue
    if (found == limit && !contractIsBefore(at, load<u32>(to + (limit - 1) * 4))) continue
    let place = found < limit ? found++ : limit - 1
    for (; place > 0 && contractIsBefore(at, load<u32>(to + (place - 1) * 4)); place--)
      store<u32>(to + place * 4, load<u32>(to + (place - 1) * 4))
    store<u32>(to + place * 4, at)
  }
  return found
}

/** Contended slots descending, score descending (so fewer slots in all first), address. */
function contractIsBefore(a: u32, b: u32): bool {
  if (load<u32>(a, 8) != load<u32>(b, 8)) return load<u32>(a, 8) > load<u32>(b, 8)
  if (load<u32>(a, 4) != load<u32>(b, 4)) return load<u32>(a, 4) < load<u32>(b, 4)
  return compareAddress(load<u32>(a), load<u32>(b)) < 0
}

/** Writes the addresses of the most shared pairs, best first; returns how many. */
export function rankPairs(to: u32): u32 {
  const limit = PAIRS_LISTED_MAX
  let found: u32 = 0
  let least: u32 = 0
  for (let index: u32 = 0; index <= pairMask; index++) {
    const at = pairs + index * PAIR
    if (load<u64>(at) == 0 || load<u32>(at, 8) < least) continue
    if (found == limit && !pairIsBefore(at, load<u32>(to + (limit - 1) * 4))) continue
    let place = found < limit ? found++ : limit - 1
    for (; place > 0 && pairIsBefore(at, load<u32>(to + (place - 1) * 4)); place--)
      store<u32>(to + place * 4, load<u32>(to + (place - 1) * 4))
    store<u32>(to + place * 4, at)
    if (found == limit) least = load<u32>(load<u32>(to + (limit - 1) * 4), 8)
  }
  return found
}

/** Shared transactions descending, then the lower address, then the higher. */
function pairIsBefore(a: u32, b: u32): bool {
  if (load<u32>(a, 8) != load<u32>(b, 8)) return load<u32>(a, 8) > load<u32>(b, 8)
  const byLower = compareAddress(lowerOf(a), lowerOf(b))
  if (byLower != 0) return byLower < 0
  return compareAddress(higherOf(a), higherOf(b)) < 0
}

/** The pair's address that comes first in byte order. */
export function lowerOf(pair: u32): u32 {
  const a = addressOf(load<u32>(pair))
  const b = addressOf(load<u32>(pair, 4))
  return compareAddress(a, b) < 0 ? a : b
}

export function higherOf(pair: u32): u32 {
  const a = addressOf(load<u32>(pair))
  const b = addressOf(load<u32>(pair, 4))
  return compareAddress(a, b) < 0 ? b : a
}

function addressOf(contract: u32): u32 {
  return load<u32>(contracts + (contract - 1) * CONTRACT)
}
