// The vote account of the chain's only validator, which votes for every block.
//
//   tag u32 (3) | node[32] withdrawer[32] collectors[32] x 2 | commissions u16 x 2 | pending u64
//   | BLS key option | votes { latency u8, slot u64, confirmations u32 } | root option
//   | voters { epoch u64, key[32] } | epoch credits { epoch, credits, previous u64 } | timestamp
import { Cursor } from '../chain/solana/cursor.ts'
import { ByteWriter } from './ledger/bytes.ts'

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
