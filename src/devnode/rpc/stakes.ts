// What stake and votes say about the cluster: getVoteAccounts, getBlockCommitment. Thread: main of
// the devnode.
import { Commitment } from '../../base/commitment.ts'
import { jsonText } from '../../base/json-text.ts'
import { encodedText } from '../../base/jsonrpc/build.ts'
import { parsedVote } from '../../chain/solana/json-parsed/vote-account.ts'
import { keyText } from '../../chain/solana/key-text.ts'
import { isSameKey } from '../../chain/solana/keys.ts'
import { programs, sysvars } from '../../chain/solana/programs.ts'
import { type Answering, answering, slotViewOf } from '../../chain/solana-rpc/view.ts'
import { epochOf } from '../ledger/epoch-schedule.ts'
import type { Ledger, LedgerAccount } from '../ledger/ledger.ts'
import { noStake, type StakeTotals, totalStake } from '../stakes.ts'
import { readStakeHistory } from '../sysvars.ts'
import type { RpcNode } from './rpc-node.ts'

/** A validator whose last vote is older counts as delinquent. */
const delinquentSlots = 128
const epochCreditsMax = 5
/** Votes that a block can have on top of it, by depth. */
const commitmentDepths = 32

/** Members of a parsed vote account that are shown. */
interface VoteInfo {
  readonly nodePubkey: string
  readonly commission: number
  readonly rootSlot: bigint | null
  readonly votes: readonly { readonly slot: bigint }[]
  readonly epochCredits: readonly {
    readonly epoch: bigint
    readonly credits: string
    readonly previousCredits: string
  }[]
}

export function stakeMethods({ ledger }: RpcNode): Readonly<Record<string, Answering>> {
  return {
    getVoteAccounts: answering({ least: 0, most: 1 }, (params) => {
      const config = params.config(0, 'RpcGetVoteAccountsConfig')
      const { commitment, slot } = slotViewOf(config, ledger)
      const keyGiven = config.text('votePubkey')
      const only = keyGiven === null ? null : params.keyOf(keyGiven)
      const isUnstakedKept = config.flag('keepUnstakedDelinquents') === true
      const distance = config.u64('delinquentSlotDistance') ?? delinquentSlots
      return () => {
        const all = [...ledger.accountsByOwner(programs.vote, commitment)]
          .filter(({ pubkey }) => only === null || isSameKey(pubkey, only))
          .flatMap((account) => voteAccount(ledger, account, commitment) ?? [])
        const isCurrent = ({ lastVote }: { lastVote: bigint }) =>
          lastVote > (slot >= distance ? slot - distance : 0)
        const isListed = ({ activatedStake }: { activatedStake: bigint }) =>
          isUnstakedKept || activatedStake > 0n
        return encodedText(
          jsonText({
            current: all.filter(isCurrent),
            delinquent: all.filter((one) => !isCurrent(one) && isListed(one)),
          }),
        )
      }
    }),
    getBlockCommitment: answering({ least: 1, most: 1 }, (params) => {
      const slot = params.u64(0)
      return () => {
        const reached = ledger.blockCommitment(slot)
        const { effective } = stakeOf(ledger, Commitment.processed)
        const votes = new Array<bigint>(commitmentDepths).fill(0n)
        const depth = Math.max(0, ledger.slot(Commitment.processed) - slot)
        votes[Math.min(depth, commitmentDepths - 1)] = effective
        // Finalized blocks are no longer voted on.
        const isVoting = reached !== null && reached < Commitment.finalized
        return encodedText(jsonText({ commitment: isVoting ? votes : null, totalStake: effective }))
      }
    }),
  }
}

function voteAccount(ledger: Ledger, account: LedgerAccount, commitment: Commitment) {
  // Reason for the cast: the parser shows these members of every vote account.
  const info = (parsedVote(account)?.info ?? null) as VoteInfo | null
  if (info === null) return null
  const { effective: activatedStake } = stakeOf(ledger, commitment, account.pubkey)
  return {
    activatedStake,
    commission: info.commission,
    epochCredits: info.epochCredits
      .slice(-epochCreditsMax)
      .map(({ epoch, credits, previousCredits }) => [
        epoch,
        BigInt(credits),
        BigInt(previousCredits),
      ]),
    epochVoteAccount: activatedStake > 0n,
    lastVote: info.votes.at(-1)?.slot ?? 0n,
    nodePubkey: info.nodePubkey,
    rootSlot: info.rootSlot ?? 0n,
    votePubkey: keyText(account.pubkey),
  }
}

/** All stake, or what is delegated to one vote account. */
function stakeOf(ledger: Ledger, commitment: Commitment, voter?: Uint8Array): StakeTotals {
  const history = ledger.account(sysvars.stakeHistory, commitment)
  if (history === null) return noStake
  const epoch = BigInt(epochOf(ledger.stateSlot(commitment), ledger.epochSchedule))
  const stakes = ledger.accountsByOwner(programs.stake, commitment)
  return totalStake(stakes, epoch, readStakeHistory(history.data), voter)
}
