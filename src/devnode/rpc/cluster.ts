// RPC methods on the node and the cluster.
// There is one validator with stake here, and no inflation: what depends on those has fixed
// answers; slots, heights, counts, fees and samples are the ledger's.
import { Commitment } from '../../base/commitment.ts'
import { accept, type Outcome } from '../../base/errors.ts'
import { jsonText } from '../../base/json-text.ts'
import { type Answer, encodedBytes, encodedText, failure } from '../../base/jsonrpc/build.ts'
import { decodeKey, encodeBase58, isSameKey, keyText } from '../../chain/solana/base58.ts'
import { parsedVote } from '../../chain/solana/json-parsed/accounts.ts'
import { programs, sysvars } from '../../chain/solana/programs.ts'
import type { Shapes } from '../../chain/solana/version.ts'
import { slotMethods } from '../../chain/solana-rpc/methods.ts'
import type { Answering, Params } from '../../chain/solana-rpc/params.ts'
import {
  answering,
  commitmentViewOf,
  historyViewOf,
  inContext,
  refusalError,
  rpcFaults,
  slotViewOf,
} from '../../chain/solana-rpc/params.ts'
import type { LocalChain } from '../chain.ts'
import { epochOf, type Ledger, type LedgerAccount } from '../ledger/ledger.ts'
import { noStake, type StakeTotals, totalStake } from '../stakes.ts'
import { readStakeHistory } from '../sysvars.ts'
import type { RpcNode, RpcPeer } from './rpc-node.ts'

const leadersMax = 5_000
const inflationAddressesMax = 32
const u64Max = 2n ** 64n - 1n
const noParams = { least: 0, most: 0 }
const oneConfig = { least: 0, most: 1 }

const asJson = (value: unknown): Answer => encodedText(jsonText(value))

export function clusterMethods(node: RpcNode): Readonly<Record<string, Answering>> {
  return {
    ...slotMethods(node),
    ...epochMethods(node),
    ...leaderMethods(node),
    ...stakeMethods(node),
    ...economyMethods(node),
  }
}

export function epochInfoOf(ledger: Ledger, commitment: Commitment): Answer {
  const { slotsPerEpoch } = ledger.epochSchedule
  const slot = ledger.slot(commitment)
  return asJson({
    absoluteSlot: slot,
    blockHeight: ledger.blockHeight(commitment),
    epoch: Math.floor(slot / slotsPerEpoch),
    slotIndex: slot % slotsPerEpoch,
    slotsInEpoch: slotsPerEpoch,
    transactionCount: ledger.transactionCount(commitment),
  })
}

function epochMethods(node: RpcNode): Readonly<Record<string, Answering>> {
  const { ledger, shapes } = node
  return {
    getTransactionCount: answering(oneConfig, (params) => {
      const { commitment } = slotViewOf(params.config(0, 'RpcContextConfig'), ledger)
      return () => encodedText(String(ledger.transactionCount(commitment)))
    }),
    getEpochInfo: answering(oneConfig, (params) => {
      const { commitment } = slotViewOf(params.config(0, 'RpcContextConfig'), ledger)
      return () => epochInfoOf(ledger, commitment)
    }),
    getEpochSchedule: answering(noParams, () => () => {
      const schedule = ledger.epochSchedule
      return asJson({
        firstNormalEpoch: schedule.firstNormalEpoch,
        firstNormalSlot: schedule.firstNormalSlot,
        leaderScheduleSlotOffset: schedule.leaderScheduleSlotOffset,
        slotsPerEpoch: schedule.slotsPerEpoch,
        warmup: schedule.warmup,
      })
    }),
    getGenesisHash: answering(noParams, () => () => asJson(ledger.genesisHash)),
    getIdentity: answering(noParams, () => () => asJson({ identity: ledger.identity })),
    getMaxRetransmitSlot: answering(
      noParams,
      () => () => asJson(ledger.slot(Commitment.processed)),
    ),
    getMaxShredInsertSlot: answering(
      noParams,
      () => () => asJson(ledger.slot(Commitment.processed)),
    ),
    getHighestSnapshotSlot: answering(noParams, () => () => failure(rpcFaults.noSnapshot)),
    ...(shapes.getAgGenesisCert && {
      getAgGenesisCert: answering(
        noParams,
        () => () => asJson(genesisCertificate(node, ledger.slot(Commitment.finalized))),
      ),
    }),
  }
}

const blsSignatureBytes = 192

/**
 * The certificate of the block after which Alpenglow began, once a finalized block has it. In shape
 * only: the consensus that would sign it does not run here.
 */
function genesisCertificate({ cluster, shapes }: RpcNode, finalized: number) {
  const block = cluster.genesisBlock(finalized)
  if (block === null) return null
  const signers = cluster.nodes.map((_, node) => 1 << (node % 8))
  const bitmap = [signers.reduce((bits, bit) => bits | bit, 0)]
  const signature = [...new Uint8Array(blsSignatureBytes)]
  const blockId = [...block.blockId]
  return {
    block: { [shapes.certificateBlockId ? 'blockId' : 'block_id']: blockId, slot: block.slot },
    signature: { bitmap, signature },
  }
}

/** Slots of an epoch by their leader, as getLeaderSchedule shows them. */
class LeaderSchedules {
  readonly #node: RpcNode
  readonly #texts = new Map<number, ReadonlyMap<string, Buffer>>()

  constructor(node: RpcNode) {
    this.#node = node
  }

  /** `{"<identity>":[…]}` of one leader, or of all. */
  text(epoch: number, identity: string | null): Buffer {
    const { nodes } = this.#node.cluster
    // A sole leader has every slot of every epoch.
    const texts = this.#of(nodes.length === 1 ? 0 : epoch)
    return texts.get(identity ?? '') ?? Buffer.from('{}')
  }

  #of(epoch: number): ReadonlyMap<string, Buffer> {
    const known = this.#texts.get(epoch)
    if (known !== undefined) return known
    const { cluster, ledger } = this.#node
    const { slotsPerEpoch } = ledger.epochSchedule
    const slots = cluster.nodes.map((): number[] => [])
    for (let index = 0; index < slotsPerEpoch; index++)
      slots[cluster.leaderOf(epoch * slotsPerEpoch + index)]!.push(index)
    const members = cluster.nodes.flatMap(({ identity }, node) => {
      const own = slots[node]!
      return own.length === 0 ? [] : [{ identity, text: `"${identity}":[${own.join(',')}]` }]
    })
    const all = Buffer.from(`{${members.map(({ text }) => text).join(',')}}`)
    const each = members.map(({ identity, text }) => [identity, Buffer.from(`{${text}}`)] as const)
    const texts = new Map([['', all], ...each])
    if (this.#texts.size > 1) this.#texts.delete(this.#texts.keys().next().value!)
    this.#texts.set(epoch, texts)
    return texts
  }
}

function leaderMethods(node: RpcNode): Readonly<Record<string, Answering>> {
  const { ledger, cluster } = node
  const { slotsPerEpoch } = ledger.epochSchedule
  const schedules = new LeaderSchedules(node)
  const leaderOf = (slot: number) => cluster.nodes[cluster.leaderOf(slot)]!.identity
  /** Schedules are known up to the next epoch. */
  const newestScheduled = () => Math.floor(ledger.slot(Commitment.processed) / slotsPerEpoch) + 1
  const isScheduled = (slot: number) => Math.floor(slot / slotsPerEpoch) <= newestScheduled()
  return {
    getSlotLeader: answering(oneConfig, (params) => {
      const view = slotViewOf(params.config(0, 'RpcContextConfig'), ledger)
      return () => asJson(leaderOf(view.slot))
    }),
    getSlotLeaders: answering({ least: 2, most: 2 }, (params) => {
      const start = params.u64(0)
      const limit = params.u64(1)
      if (limit > leadersMax) params.fail(`Invalid limit; max ${leadersMax}`)
      if (limit > 0 && !isScheduled(start + limit - 1)) {
        const epoch = Math.max(Math.floor(start / slotsPerEpoch), newestScheduled() + 1)
        params.fail(`Invalid slot range: leader schedule for epoch ${epoch} is unavailable`)
      }
      return () => asJson(Array.from({ length: limit }, (_, index) => leaderOf(start + index)))
    }),
    getLeaderSchedule: answering({ least: 0, most: 2 }, (params) => {
      // The slot may be left out, so that the config comes first.
      const isConfigFirst = typeof params.at(0) === 'object' && params.at(0) !== null
      const slot = params.untagged('RpcLeaderScheduleConfigWrapper', () =>
        isConfigFirst ? null : params.optionalU64(0),
      )
      const config = params.config(isConfigFirst ? 0 : 1, 'RpcLeaderScheduleConfig')
      const view = slotViewOf(config, ledger)
      const identityText = config.text('identity')
      const identity = identityText === null ? null : encodeBase58(params.keyOf(identityText))
      return () => {
        const at = slot ?? view.slot
        if (!isScheduled(at)) return asJson(null)
        return encodedBytes(schedules.text(Math.floor(at / slotsPerEpoch), identity))
      }
    }),
    getBlockProduction: blockProduction(node),
    getClusterNodes: answering(
      noParams,
      () => () => asJson(cluster.nodes.map((peer) => contactInfo(peer, node.shapes))),
    ),
  }
}

/** One UDP port stands for all that a validator has: see node.ts. */
function contactInfo(peer: RpcPeer, { release }: Shapes) {
  const { host, rpc, ws, udp, shredVersion } = peer.contact()
  const at = (port: number) => (port === 0 ? null : `${host}:${port}`)
  return {
    clientId: 'Agave',
    featureSet: release['feature-set'],
    gossip: at(udp),
    pubkey: peer.identity,
    pubsub: at(ws),
    rpc: at(rpc),
    serveRepair: at(udp),
    shredVersion,
    tpu: null,
    tpuForwards: null,
    tpuForwardsQuic: at(udp),
    tpuQuic: at(udp),
    tpuVote: at(udp),
    tvu: at(udp),
    version: release['solana-core'],
  }
}

function blockProduction(node: RpcNode): Answering {
  const { ledger } = node
  const { slotsPerEpoch } = ledger.epochSchedule
  return answering(oneConfig, (params) => {
    const config = params.config(0, 'RpcBlockProductionConfig')
    const view = slotViewOf(config, ledger)
    const identityText = config.text('identity')
    const identity = identityText === null ? null : encodeBase58(params.keyOf(identityText))
    const range = productionRange(params, view.slot, slotsPerEpoch)
    return () => {
      const produced = productionOf(node, range)
      const listed = produced.filter(([leader]) => identity === null || identity === leader)
      return inContext(
        node,
        view.slot,
        jsonText({
          byIdentity: Object.fromEntries(listed),
          range: { firstSlot: range.first, lastSlot: range.last },
        }),
      )
    }
  })
}

/** Slots that each node led, and how many of them have a block. */
function productionOf(
  { cluster, ledger }: RpcNode,
  { first, last }: { readonly first: number; readonly last: number },
): (readonly [identity: string, counts: readonly [slots: number, blocks: number]])[] {
  const count = last - first + 1
  const { nodes } = cluster
  if (nodes.length === 1) return [[nodes[0]!.identity, [count, count]]]
  const range = { from: first, to: last, limit: count }
  const blocks = new Set(ledger.blockSlots(range, Commitment.processed))
  const counts = nodes.map((): [number, number] => [0, 0])
  for (let slot = first; slot <= last; slot++) {
    const of = counts[cluster.leaderOf(slot)]!
    of[0]++
    if (blocks.has(slot)) of[1]++
  }
  const all = nodes.map(({ identity }, node) => [identity, counts[node]!] as const)
  return all.filter(([, [slots]]) => slots > 0)
}

function economyMethods(node: RpcNode): Readonly<Record<string, Answering>> {
  const { ledger, chain, shapes } = node
  const addressesMax = shapes.inflationRewardLimit ? inflationAddressesMax : Number.MAX_SAFE_INTEGER
  const { slotsPerEpoch } = ledger.epochSchedule
  let minimum: Outcome<bigint> | null = null
  return {
    getInflationGovernor: answering(oneConfig, (params) => {
      commitmentViewOf(params, 0, ledger)
      return () => asJson({ foundation: 0, foundationTerm: 0, initial: 0, taper: 0, terminal: 0 })
    }),
    getInflationRate: answering(noParams, () => () => {
      const epoch = Math.floor(ledger.slot(Commitment.finalized) / slotsPerEpoch)
      return asJson({ epoch, foundation: 0, total: 0, validator: 0 })
    }),
    getInflationReward: answering({ least: 1, most: 2 }, (params) => {
      const keys = params.texts(0, addressesMax).map((text) => params.keyOf(text))
      const config = params.config(1, 'RpcEpochConfig')
      const view = historyViewOf(config, ledger)
      const newest = Math.floor(view.slot / slotsPerEpoch)
      const epoch = config.exactU64('epoch') ?? Math.max(0, newest - 1)
      // An epoch's rewards are paid in the first block after it; there are none here.
      const paidAt = saturated((BigInt(epoch) + 1n) * BigInt(slotsPerEpoch))
      return () => {
        const first = ledger.firstAvailableSlot
        if (paidAt < first) return failure(rpcFaults.blockCleanedUp(Number(paidAt), first))
        return paidAt > view.slot
          ? failure(rpcFaults.blockNotAvailable(paidAt))
          : asJson(keys.map(() => null))
      }
    }),
    getStakeMinimumDelegation: answering(oneConfig, (params) => {
      const view = slotViewOf(params.config(0, 'RpcContextConfig'), ledger)
      return () => {
        // The program's answer never changes, so it is requested once.
        minimum ??= probeMinimumDelegation(chain, programs.stake)
        if (minimum.ok) return inContext(node, view.slot, String(minimum.value))
        const { refusal } = minimum
        minimum = null
        return failure(refusalError(refusal))
      }
    }),
  }
}

function saturated(value: bigint): bigint {
  return value > u64Max ? u64Max : value
}

function productionRange(
  params: Params,
  slot: number,
  slotsPerEpoch: number,
): { first: number; last: number } {
  const epochStart = slot - (slot % slotsPerEpoch)
  const range = params
    .config(0, 'RpcBlockProductionConfig')
    .fields('range', 'RpcBlockProductionConfigRange')
  range?.require('firstSlot')
  const first = range?.exactU64('firstSlot') ?? epochStart
  const last = range?.exactU64('lastSlot') ?? slot
  if (last < first) params.fail(`lastSlot, ${last}, cannot be less than firstSlot, ${first}`)
  if (last > slot) params.fail(`lastSlot, ${last}, is too large; max ${slot}`)
  return { first: Number(first), last: Number(last) }
}

// Reads the minimum delegation from the stake program by a simulation without signatures, for
// getStakeMinimumDelegation.

/** GetMinimumDelegation of the stake program. */
const instructionTag = 13

export function probeMinimumDelegation(
  chain: LocalChain,
  stakeProgram: Uint8Array,
): Outcome<bigint> {
  const payer = decodeKey(chain.ledger.faucet)!
  const simulated = chain.simulate(question(payer, stakeProgram), {
    isBlockhashReplaced: true,
    mustVerify: false,
  })
  if (!simulated.ok) return simulated
  const { returnData } = simulated.value
  // A program without this instruction sets no minimum.
  if (returnData === null || returnData.data.length < 8) return accept(1n)
  return accept(Buffer.from(returnData.data).readBigUInt64LE(0))
}

/** One empty signature | header 1 0 1 | payer, program | no blockhash | the one instruction. */
function question(payer: Uint8Array, program: Uint8Array): Uint8Array {
  return Buffer.concat([
    Uint8Array.of(1),
    new Uint8Array(64),
    Uint8Array.of(1, 0, 1, 2),
    payer,
    program,
    new Uint8Array(32),
    Uint8Array.of(1, 1, 0, 4, instructionTag, 0, 0, 0),
  ])
}

// What stake and votes say about the cluster: getVoteAccounts, getBlockCommitment. Thread: main of
// the devnode.

/** A validator whose last vote is older counts as delinquent. */
const delinquentSlots = 128
const epochCreditsMax = 5
/** Votes that a block can have on top of it, by depth. */
const commitmentDepths = 32

/** Members of a parsed vote account that are shown. */
interface VoteInfo {
  readonly nodePubkey: string
  readonly commission: number
  readonly inflationRewardsCommissionBps: number
  readonly rootSlot: bigint | null
  readonly votes: readonly { readonly slot: bigint }[]
  readonly epochCredits: readonly {
    readonly epoch: bigint
    readonly credits: string
    readonly previousCredits: string
  }[]
}

export function stakeMethods({
  ledger,
  cluster,
  shapes,
}: RpcNode): Readonly<Record<string, Answering>> {
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
          .flatMap((account) => voteAccount({ ledger, shapes }, account, commitment) ?? [])
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
        // Votes are certificates under Alpenglow, and a node that started with it counts none.
        if (cluster.isMigrated(slot)) return encodedText('{"commitment":null,"totalStake":0}')
        // Finalized blocks are no longer voted on.
        const isVoting = reached !== null && reached < Commitment.finalized
        return encodedText(jsonText({ commitment: isVoting ? votes : null, totalStake: effective }))
      }
    }),
  }
}

function voteAccount(
  { ledger, shapes }: Pick<RpcNode, 'ledger' | 'shapes'>,
  account: LedgerAccount,
  commitment: Commitment,
) {
  // Reason for the cast: the parser shows these members of every vote account.
  const info = (parsedVote(account, shapes)?.info ?? null) as VoteInfo | null
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
    // Undefined is not shown.
    inflationRewardsCommissionBps: shapes.commissionBps
      ? info.inflationRewardsCommissionBps
      : undefined,
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
