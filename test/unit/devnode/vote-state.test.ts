// The validator's vote account: votes for the last blocks, the root below them, credits by epoch.
import { expect, test } from 'vitest'
import { keyText } from '../../../src/chain/solana/base58.ts'
import { parsedVote } from '../../../src/chain/solana/json-parsed/accounts.ts'
import { programs } from '../../../src/chain/solana/programs.ts'
import { newestShapes } from '../../../src/chain/solana/version.ts'
import { newVoteState, withVotes } from '../../../src/devnode/stakes.ts'

const node = new Uint8Array(32).fill(1)
const vote = new Uint8Array(32).fill(2)
const slotsPerEpoch = 32

const shown = (data: Uint8Array) =>
  parsedVote({ pubkey: vote, owner: programs.vote, data }, newestShapes)!.info as Record<
    string,
    unknown
  >

/** Landed in a slot whose every predecessor has a block. */
function votedIn(slot: number, data = newVoteState(node, vote)): Uint8Array {
  const voted = Array.from({ length: Math.min(32, slot - 1) }, (_, at) => slot - 1 - at)
  return withVotes(data, { slot, slotsPerEpoch, voted, unixTime: 1_000 })!
}

test('begins without votes, authorized by its own key', () => {
  expect(shown(newVoteState(node, vote))).toMatchObject({
    nodePubkey: keyText(node),
    authorizedWithdrawer: keyText(vote),
    authorizedVoters: [{ epoch: 0n, authorizedVoter: keyText(vote) }],
    votes: [],
    rootSlot: null,
    epochCredits: [],
    commission: 0,
  })
})

test('has a vote for each of the last 31 blocks, the newest with one confirmation', () => {
  const early = shown(votedIn(3))
  expect(early).toMatchObject({
    votes: [
      { slot: 1n, confirmationCount: 2 },
      { slot: 2n, confirmationCount: 1 },
    ],
    rootSlot: null,
    epochCredits: [],
    lastTimestamp: { slot: 2n, timestamp: 1_000n },
  })
  const late = shown(votedIn(100)) as { votes: { slot: bigint }[]; rootSlot: bigint }
  expect([late.votes.length, late.votes[0]!.slot, late.rootSlot]).toEqual([31, 69n, 68n])
})

test('earns 16 credits for each vote that is rooted, in the epoch where it is', () => {
  const { epochCredits } = shown(votedIn(100))
  expect(epochCredits).toEqual([
    { epoch: 1n, credits: String(31 * 16), previousCredits: '0' },
    { epoch: 2n, credits: String(63 * 16), previousCredits: String(31 * 16) },
    { epoch: 3n, credits: String(68 * 16), previousCredits: String(63 * 16) },
  ])
})

test('keeps what transactions have set, and leaves data that is no vote state alone', () => {
  const changed = Buffer.from(votedIn(50))
  // Commission of 5 %, in basis points.
  changed.writeUInt16LE(500, 4 + 4 * 32)
  expect(shown(votedIn(51, changed))).toMatchObject({ commission: 5 })
  const votes = { slot: 9, slotsPerEpoch, voted: [8], unixTime: 1 }
  expect(withVotes(new Uint8Array(0), votes)).toBeNull()
  expect(withVotes(Buffer.alloc(3_762), votes)).toBeNull()
  expect(withVotes(Buffer.alloc(3_762, 255), votes)).toBeNull()
})
