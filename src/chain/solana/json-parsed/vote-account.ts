// Parses vote accounts for `jsonParsed`.
// Versions 1 and 2 are shown as version 4 (tag 3), with what its new members mean for them.
//
//   tag u32 | node[32] withdrawer[32]
//   tag 1, 2: commission u8
//   tag 3:    collectors [32] x 2 | commissions u16 x 2, in basis points | pending u64 | BLS option
//   votes: latency u8 (not tag 1), slot u64, confirmations u32 | root option | voters
//   tag 1, 2: 32 prior voters, not shown
//   epoch credits | last timestamp
import { encodeBase58 } from '../base58.ts'
import { Cursor } from '../cursor.ts'
import { keyText } from '../key-text.ts'
import type { Shapes } from '../version.ts'
import { inOrder, layout, list, optional } from './layout.ts'
import type { Parsed, ParsedAccount } from './parsed.ts'

const priorVotersBytes = 32 * 48 + 9
const blsKeyBytes = 48
/** In basis points. */
const percent = 100

const kinds = {
  blsKey: optional((cursor) => encodeBase58(cursor.bytes(blsKeyBytes))),
  votes: list(layout('latency:u8 slot:u64 confirmationCount:u32')),
  oldVotes: list(layout('latency:none slot:u64 confirmationCount:u32', { none: () => 0 })),
  voters: list(layout('epoch:u64 authorizedVoter:key')),
  priorVoters: (cursor: Cursor) => cursor.bytes(priorVotersBytes),
  credits: list(layout('epoch:u64 credits:string previousCredits:string')),
  timestamp: layout('slot:u64 timestamp:i64'),
}

const head = 'nodePubkey:key authorizedWithdrawer:key'
const middle = 'rootSlot:optionalU64 authorizedVoters:voters'
const end = 'epochCredits:credits lastTimestamp:timestamp'
const older = (votes: string) =>
  layout(`${head} commission:u8 votes:${votes} ${middle} _:priorVoters ${end}`, kinds)

/** By the tag; the first version is no longer parsed. */
const versions = [
  null,
  older('oldVotes'),
  older('votes'),
  layout(
    `${head} inflationRewardsCollector:key blockRevenueCollector:key
    inflationRewardsCommissionBps:u16 blockRevenueCommissionBps:u16
    pendingDelegatorRewards:string blsPubkeyCompressed:blsKey votes:votes ${middle} ${end}`,
    kinds,
  ),
]

export function parsedVote({ pubkey, data }: ParsedAccount, shapes: Shapes): Parsed | null {
  const cursor = new Cursor(data)
  const state = versions[cursor.u32()]?.(cursor)
  if (state === undefined || cursor.isShort) return null
  const { commission, inflationRewardsCommissionBps, nodePubkey } = state
  const added =
    commission === undefined
      ? { commission: percentOf(Number(inflationRewardsCommissionBps), shapes) }
      : {
          blockRevenueCollector: nodePubkey,
          blockRevenueCommissionBps: 100 * percent,
          blsPubkeyCompressed: null,
          inflationRewardsCollector: keyText(pubkey),
          inflationRewardsCommissionBps: Number(commission) * percent,
          pendingDelegatorRewards: '0',
        }
  return { info: inOrder({ ...state, ...added, priorVoters: [] }), type: 'vote' }
}

/** A byte, as in the older versions. */
function percentOf(bps: number, shapes: Shapes): number {
  return shapes.commissionBps
    ? Math.min(0xff, Math.ceil(bps / percent))
    : Math.floor(bps / percent) & 0xff
}
