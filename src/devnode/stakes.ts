// How much of a stake is active in an epoch, by the warm-up and cool-down rules of the stake
// program.
//
//   stake account 200: tag u32 (2 delegated) | meta[120] | voter[32] stake u64 activation u64
//                      deactivation u64 | …
import { isSameKey } from '../chain/solana/keys.ts'

const delegatedTag = 2
const delegationAt = 124
/** Activation epoch of stake that was there at genesis: active from the first slot on. */
export const bootstrapEpoch = 0xffff_ffff_ffff_ffffn
/** Of all active stake, what may become active or inactive in one epoch. */
const changeRate = 0.09

export interface Delegation {
  readonly voter: Uint8Array
  readonly stake: bigint
  readonly activationEpoch: bigint
  readonly deactivationEpoch: bigint
}

export interface StakeTotals {
  readonly effective: bigint
  readonly activating: bigint
  readonly deactivating: bigint
}

/** Totals of all stake by the epoch that ended with them. */
export type StakeHistory = ReadonlyMap<bigint, StakeTotals>

export const noStake: StakeTotals = { effective: 0n, activating: 0n, deactivating: 0n }

/** Null for an account that is not delegated. */
export function delegationOf(data: Uint8Array): Delegation | null {
  const view = Buffer.from(data.buffer, data.byteOffset, data.length)
  if (data.length < delegationAt + 56 || view.readUInt32LE(0) !== delegatedTag) return null
  return {
    voter: data.subarray(delegationAt, delegationAt + 32),
    stake: view.readBigUInt64LE(delegationAt + 32),
    activationEpoch: view.readBigUInt64LE(delegationAt + 40),
    deactivationEpoch: view.readBigUInt64LE(delegationAt + 48),
  }
}

/** The sum over stake accounts in an epoch; `voter` limits it to what is delegated to that one. */
export function totalStake(
  accounts: Iterable<{ readonly data: Uint8Array }>,
  epoch: bigint,
  history: StakeHistory,
  voter?: Uint8Array,
): StakeTotals {
  let sum = noStake
  for (const { data } of accounts) {
    const delegation = delegationOf(data)
    if (delegation === null) continue
    if (voter !== undefined && !isSameKey(delegation.voter, voter)) continue
    const { effective, activating, deactivating } = stakeAt(delegation, epoch, history)
    sum = {
      effective: sum.effective + effective,
      activating: sum.activating + activating,
      deactivating: sum.deactivating + deactivating,
    }
  }
  return sum
}

export function stakeAt(delegation: Delegation, epoch: bigint, history: StakeHistory): StakeTotals {
  const { deactivationEpoch } = delegation
  const warm = warmedUp(delegation, epoch, history)
  if (epoch < deactivationEpoch) return { ...warm, deactivating: 0n }
  const { effective } = warm
  if (epoch === deactivationEpoch) return { effective, activating: 0n, deactivating: effective }
  let left = effective
  let at = deactivationEpoch
  let totals = history.get(at)
  // Without history it has ended long ago.
  if (totals === undefined) return noStake
  while (totals !== undefined && totals.deactivating > 0n && at < epoch) {
    const change = share(left, totals.deactivating, totals.effective)
    left = change >= left ? 0n : left - change
    if (left === 0n) break
    totals = history.get(++at)
  }
  return { effective: left, activating: 0n, deactivating: left }
}

function warmedUp(
  { stake, activationEpoch, deactivationEpoch }: Delegation,
  epoch: bigint,
  history: StakeHistory,
): { effective: bigint; activating: bigint } {
  if (activationEpoch === bootstrapEpoch) return { effective: stake, activating: 0n }
  if (activationEpoch === deactivationEpoch || epoch < activationEpoch)
    return { effective: 0n, activating: 0n }
  if (epoch === activationEpoch) return { effective: 0n, activating: stake }
  let effective = 0n
  let at = activationEpoch
  let totals = history.get(at)
  // Without history it has been active for long.
  if (totals === undefined) return { effective: stake, activating: 0n }
  while (totals !== undefined && totals.activating > 0n && at < epoch && at < deactivationEpoch) {
    effective += share(stake - effective, totals.activating, totals.effective)
    if (effective >= stake) return { effective: stake, activating: 0n }
    totals = history.get(++at)
  }
  return { effective, activating: stake - effective }
}

/** Its share of what may change in one epoch; at least 1, so that it ends. */
function share(part: bigint, changing: bigint, effective: bigint): bigint {
  const weight = Number(part) / Number(changing)
  const change = BigInt(Math.trunc(weight * (Number(effective) * changeRate)))
  return change < 1n ? 1n : change
}
