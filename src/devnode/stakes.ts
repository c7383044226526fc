// How much of a stake is active in an epoch, by the warm-up and cool-down rules of the stake
// program.
//
//   stake account 200: tag u32 (2 delegated) | meta[120] | voter[32] stake u64 activation u64
//                      deactivation u64 | …
import { isSameKey } from '../chain/solana/base58.ts'
import { Cursor } from '../chain/solana/cursor.ts'
import { ByteWriter } from './ledger/bytes.ts'

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

// The vote account of the chain's only validator, which votes for every block.
//
//   tag u32 (3) | node[32] withdrawer[32] collectors[32] x 2 | commissions u16 x 2 | pending u64
//   | BLS key option | votes { latency u8, slot u64, confirmations u32 } | root option
//   | voters { epoch u64, key[32] } | epoch credits { epoch, credits, previous u64 } | timestamp

const voteStateBytes = 3_762
const tag = 3
const fixedBytes = 4 * 32 + 2 * 2 + 8
const blsKeyBytes = 48
const voteBytes = 13
const voterBytes = 40
/** Votes that are not rooted yet. */
export const votesMax = 31
const creditsPerVote = 16
const epochCreditsMax = 64

export interface Votes {
  /** The slot in which they have landed. */
  readonly slot: number
  readonly slotsPerEpoch: number
  /** Slots of the last blocks, newest first. */
  readonly voted: readonly number[]
  /** Seconds since 1970. */
  readonly unixTime: number
}

/** An account without votes. Its own key may vote and withdraw, as a test validator's. */
export function newVoteState(node: Uint8Array, vote: Uint8Array): Uint8Array {
  const writer = new ByteWriter()
  writer.u32(tag).raw(node).raw(vote).raw(vote).raw(vote)
  // No commissions, nothing pending.
  writer.u32(0).u64(0n).u8(1).raw(new Uint8Array(blsKeyBytes))
  // No votes, no root; the voter from epoch 0 on.
  writer.u64(0n).u8(0).u64(1n).u64(0n).raw(vote)
  return padded(writer)
}

/** The state with these votes; what transactions have set stays. Null for other data. */
export function withVotes(data: Uint8Array, { voted, unixTime, ...at }: Votes): Uint8Array | null {
  const kept = keptOf(data)
  if (kept === null) return null
  const writer = new ByteWriter().raw(kept.head)
  const u64 = (value: number) => writer.u64(BigInt(value))
  const votes = voted.slice(0, votesMax).reverse()
  u64(votes.length)
  votes.forEach((slot, index) => {
    writer.u8(1)
    u64(slot).u32(votes.length - index)
  })
  const root = voted[votesMax]
  writer.u8(root === undefined ? 0 : 1)
  if (root !== undefined) u64(root)
  writer.raw(kept.voters)
  const credits = epochCredits(at)
  u64(credits.length)
  for (const entry of credits) entry.forEach(u64)
  u64(votes.at(-1) ?? 0)
  u64(votes.length === 0 ? 0 : unixTime)
  return padded(writer)
}

/** What is before the votes, and the authorized voters. */
function keptOf(data: Uint8Array): { head: Uint8Array; voters: Uint8Array } | null {
  const cursor = new Cursor(data)
  const found = cursor.u32()
  cursor.bytes(fixedBytes)
  if (cursor.u8() === 1) cursor.bytes(blsKeyBytes)
  const votesAt = data.length - cursor.left
  cursor.bytes(Number(cursor.u64()) * voteBytes)
  if (cursor.u8() === 1) cursor.u64()
  const votersAt = data.length - cursor.left
  cursor.bytes(Number(cursor.u64()) * voterBytes)
  if (found !== tag || cursor.isShort) return null
  const end = data.length - cursor.left
  return { head: data.subarray(0, votesAt), voters: data.subarray(votersAt, end) }
}

function padded(writer: ByteWriter): Uint8Array {
  const data = Buffer.alloc(voteStateBytes)
  writer.take().copy(data)
  return data
}

/** Each vote earns its credits when its slot is rooted. */
function epochCredits({ slot, slotsPerEpoch }: Pick<Votes, 'slot' | 'slotsPerEpoch'>) {
  const earnedAt = (landed: number) => Math.max(0, landed - votesMax - 1) * creditsPerVote
  const epoch = Math.floor(slot / slotsPerEpoch)
  const entries: [epoch: number, credits: number, before: number][] = []
  for (let of = Math.max(0, epoch - epochCreditsMax + 1); of <= epoch; of++) {
    const first = of * slotsPerEpoch
    const credits = earnedAt(Math.min(slot, first + slotsPerEpoch - 1))
    if (credits > 0) entries.push([of, credits, earnedAt(first - 1)])
  }
  return entries
}
