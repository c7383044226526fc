// What the chain's only validator writes without a transaction when a slot opens: sysvars, its
// votes, and the stake history at the start of an epoch. Thread: main of the devnode.
import { Commitment } from '../base/commitment.ts'
import { programs, sysvars } from '../chain/solana/programs.ts'
import type { VmAccount } from './executed.ts'
import type { Block } from './ledger/block.ts'
import { epochOf } from './ledger/epoch-schedule.ts'
import type { LedgerState } from './ledger/state.ts'
import { type StakeTotals, totalStake } from './stakes.ts'
import { readStakeHistory, slotHashesMax, slotSysvars, stakeHistorySysvar } from './sysvars.ts'
import { votesMax, withVotes } from './vote-state.ts'

export function openingAccounts(
  ledger: LedgerState,
  open: { readonly vote: Uint8Array; readonly slot: number; readonly unixTime: number },
): VmAccount[] {
  const { vote, slot, unixTime } = open
  const { epochSchedule: schedule, newest } = ledger
  const blocks = lastBlocks(ledger)
  const clock = ledger.newestAccount(sysvars.clock)?.data ?? null
  const accounts = slotSysvars({ slot, schedule, unixTime, clock, blocks })
  const ended = epochOf(newest.slot, schedule)
  if (epochOf(slot, schedule) > ended) accounts.push(nextStakeHistory(ledger, BigInt(ended)))
  const account = ledger.newestAccount(vote)
  if (account === null || account.lamports === 0n) return accounts
  const voted = blocks.slice(0, votesMax + 1).map((block) => block.slot)
  const { slotsPerEpoch } = schedule
  const votes = { slot, slotsPerEpoch, voted: voted.filter((one) => one > 0) }
  const data = withVotes(account.data, { ...votes, unixTime: newest.blockTime })
  return data === null ? accounts : [...accounts, { ...account, data }]
}

/** Newest first. */
function lastBlocks(ledger: LedgerState): Block[] {
  const blocks: Block[] = []
  let block: Block | null = ledger.newest
  while (block !== null && blocks.length < slotHashesMax) {
    blocks.push(block)
    block = block.slot === 0 ? null : ledger.block(block.parentSlot)
  }
  return blocks
}

/** Adds the totals of the epoch that has ended. */
function nextStakeHistory(ledger: LedgerState, ended: bigint): VmAccount {
  const history = readStakeHistory(ledger.newestAccount(sysvars.stakeHistory)!.data)
  const stakes = ledger.accountsByOwner(programs.stake, Commitment.processed)
  const entry: [bigint, StakeTotals] = [ended, totalStake(stakes, ended, history)]
  return stakeHistorySysvar([entry, ...history])
}
