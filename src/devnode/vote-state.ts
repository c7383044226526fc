// The vote account of the chain's only validator, which votes for every block. Thread: any (pure).
//
//   tag u32 (3) | node[32] withdrawer[32] collectors[32] x 2 | commissions u16 x 2 | pending u64
//   | BLS key option | votes { latency u8, slot u64, confirmations u32 } | root option
//   | voters { epoch u64, key[32] } | epoch credits { epoch, credits, previous u64 } | timestamp
import { ByteWriter } from './ledger/bytes.ts'

const voteStateBytes = 3_762
const tag = 3
const blsKeyBytes = 48
/** Votes that are not rooted yet. */
export const votesMax = 31
const creditsPerVote = 16
const epochCreditsMax = 64

export interface VoteInput {
  readonly node: Uint8Array
  readonly vote: Uint8Array
  /** The slot in which the votes have landed. */
  readonly slot: number
  readonly slotsPerEpoch: number
  /** Slots of the last blocks, newest first. */
  readonly voted: readonly number[]
  /** Seconds since 1970. */
  readonly unixTime: number
}

/** Its own key may vote and withdraw, as a test validator's. */
export function voteStateData({ node, vote, voted, ...input }: VoteInput): Uint8Array {
  const writer = new ByteWriter()
  const u64 = (value: number) => writer.u64(BigInt(value))
  writer.u32(tag).raw(node).raw(vote).raw(vote).raw(vote)
  // No commissions, nothing pending.
  writer.u32(0).u64(0n).u8(1).raw(new Uint8Array(blsKeyBytes))
  const votes = voted.slice(0, votesMax).reverse()
  u64(votes.length)
  votes.forEach((slot, index) => {
    writer.u8(1)
    u64(slot).u32(votes.length - index)
  })
  const root = voted[votesMax]
  writer.u8(root === undefined ? 0 : 1)
  if (root !== undefined) u64(root)
  u64(1)
  u64(Math.floor(input.slot / input.slotsPerEpoch)).raw(vote)
  const credits = epochCredits(input)
  u64(credits.length)
  for (const entry of credits) entry.forEach(u64)
  u64(votes.at(-1) ?? 0)
  u64(votes.length === 0 ? 0 : input.unixTime)
  const data = Buffer.alloc(voteStateBytes)
  writer.take().copy(data)
  return data
}

/** Each vote earns its credits when its slot is rooted. */
function epochCredits({ slot, slotsPerEpoch }: Pick<VoteInput, 'slot' | 'slotsPerEpoch'>) {
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
