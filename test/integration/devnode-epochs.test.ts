// Sysvars, votes and stake over epochs, with unmodified @solana/web3.js and @solana/kit. Epochs are
// longer than any step of a test takes; the clock jumps to the last slots of one, which ends as any.
import { createDefaultRpcTransport, createSolanaRpcFromTransport } from '@solana/kit'
import {
  fetchSysvarClock,
  fetchSysvarEpochRewards,
  fetchSysvarEpochSchedule,
  fetchSysvarLastRestartSlot,
  fetchSysvarRent,
  fetchSysvarSlotHashes,
  fetchSysvarSlotHistory,
  fetchSysvarStakeHistory,
} from '@solana/sysvars'
import {
  Authorized,
  Keypair,
  type ParsedAccountData,
  PublicKey,
  StakeProgram,
  SYSVAR_STAKE_HISTORY_PUBKEY,
  VoteInit,
  VoteProgram,
} from '@solana/web3.js'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startDevnode } from '../testkit/devnode.ts'
import { SolanaNode } from '../testkit/solana-node.ts'
import { until } from '../testkit/until.ts'

const epochSlots = 2_000

describe('the devnode', () => {
  let node: SolanaNode
  beforeAll(async () => {
    node = await SolanaNode.of(await startDevnode({ flags: [`--slots-per-epoch=${epochSlots}`] }))
  })
  afterAll(() => node?.dispose())

  const epochNow = async () => (await node.connection.getEpochInfo('processed')).epoch
  /** Leaves all of an epoch to what follows. */
  const nextEpoch = async () => {
    const next = (await epochNow()) + 1
    const absoluteSlot = next * epochSlots - 3
    expect((await node.call('surfnet_timeTravel', { absoluteSlot })).error).toBeUndefined()
    await until(async () => (await epochNow()) === next, 'the next epoch')
  }
  const parsed = async (key: PublicKey) => {
    const { value } = await node.connection.getParsedAccountInfo(key, 'processed')
    return (value!.data as ParsedAccountData).parsed.info
  }
  const validator = async () => {
    const { current } = await node.connection.getVoteAccounts('processed')
    return current[0] ?? null
  }

  it('shows sysvars that agree with the methods', async () => {
    const headers = { 'x-token': node.token }
    const transport = createDefaultRpcTransport({ url: node.url, headers })
    const rpc = createSolanaRpcFromTransport(transport)
    const config = { commitment: 'processed' } as const
    const schedule = await fetchSysvarEpochSchedule(rpc, config)
    expect(schedule).toEqual(await rpc.getEpochSchedule().send())
    expect(schedule).toMatchObject({ slotsPerEpoch: BigInt(epochSlots), warmup: false })
    const clock = await fetchSysvarClock(rpc, config)
    expect(clock.epoch).toBe(clock.slot / BigInt(epochSlots))
    expect(clock.leaderScheduleEpoch).toBe(clock.epoch + 1n)
    const ofSlot = async (slot: bigint) => {
      let later = clock
      const has = async () => {
        later = await fetchSysvarClock(rpc, config)
        return later.slot >= slot
      }
      await until(has, `slot ${slot}`)
      return later
    }
    expect((await ofSlot(clock.slot + 5n)).epochStartTimestamp).toBe(clock.epochStartTimestamp)
    await nextEpoch()
    expect((await ofSlot(0n)).epochStartTimestamp).toBeGreaterThan(clock.epochStartTimestamp)
    const newest = await rpc.getSlot({ commitment: 'confirmed' }).send()
    const slots = await fetchSysvarSlotHistory(rpc, { commitment: 'confirmed' })
    expect(slots.nextSlot).toBeGreaterThan(newest)
    expect(slots.nextSlot).toBeLessThanOrEqual((await fetchSysvarClock(rpc, config)).slot)
    // A bit for each slot that has a block.
    let blocks = 0n
    for (const slot of await rpc.getBlocks(0n, 63n).send()) blocks |= 1n << slot
    expect(slots.bits[0]).toBe(blocks)
    expect(blocks & 0b11111n).toBe(0b11111n)
    const hashes = await fetchSysvarSlotHashes(rpc, config)
    expect(hashes[0]!.slot).toBeGreaterThanOrEqual(newest)
    const history = await fetchSysvarStakeHistory(rpc, config)
    expect(history[0]!.epoch).toBe(BigInt(history.length - 1))
    expect((await fetchSysvarRent(rpc, config)).burnPercent).toBe(50)
    expect((await fetchSysvarEpochRewards(rpc, config)).active).toBe(false)
    expect((await fetchSysvarLastRestartSlot(rpc, config)).lastRestartSlot).toBe(0n)
    const accounts = await rpc
      .getProgramAccounts('Sysvar1111111111111111111111111111111111111' as never, {
        ...config,
        encoding: 'base64',
      })
      .send()
    for (const { account } of accounts) {
      const least = await rpc.getMinimumBalanceForRentExemption(account.space).send()
      expect(account.lamports).toBe(least)
    }
  })

  it('has a validator that votes for every slot, and lists others', async () => {
    const { connection } = node
    await until(async () => (await validator()) !== null, 'a first vote')
    const { identity } = (await node.call('getIdentity')).result
    const own = (await validator())!
    expect(own).toMatchObject({ nodePubkey: identity, commission: 0, epochVoteAccount: true })
    expect(own.activatedStake).toBeGreaterThan(999_999 * 1e9)
    expect(await connection.getBalance(new PublicKey(identity), 'processed')).toBe(500 * 1e9)
    await until(async () => (await validator())!.lastVote > own.lastVote, 'the next vote')
    await until(async () => (await validator())!.epochCredits.length > 0, 'credits')
    const from = await node.funded()
    const vote = Keypair.generate()
    const voteInit = new VoteInit(from.publicKey, from.publicKey, from.publicKey, 7)
    const lamports = await connection.getMinimumBalanceForRentExemption(VoteProgram.space)
    const accounts = { fromPubkey: from.publicKey, votePubkey: vote.publicKey, lamports, voteInit }
    await node.land(VoteProgram.createAccount(accounts).instructions, [from, vote])
    const listed = async (keepUnstakedDelinquents: boolean) => {
      const config = { commitment: 'processed', votePubkey: vote.publicKey.toBase58() }
      const { result } = await node.call('getVoteAccounts', { ...config, keepUnstakedDelinquents })
      return result
    }
    expect(await listed(false)).toEqual({ current: [], delinquent: [] })
    expect((await listed(true)).delinquent).toMatchObject([{ commission: 7, activatedStake: 0 }])
  })

  it('activates delegated stake in the next epoch, and frees it in the one after', async () => {
    const { connection } = node
    await until(async () => (await validator()) !== null, 'a first vote')
    const { votePubkey, activatedStake } = (await validator())!
    const from = await node.funded()
    const stake = Keypair.generate()
    const reserve = await connection.getMinimumBalanceForRentExemption(StakeProgram.space)
    const delegated = 3 * 1e9
    const authorizedPubkey = from.publicKey
    const stakePubkey = stake.publicKey
    const create = StakeProgram.createAccount({
      fromPubkey: from.publicKey,
      stakePubkey,
      authorized: new Authorized(from.publicKey, from.publicKey),
      lamports: reserve + delegated,
    })
    const delegate = StakeProgram.delegate({
      stakePubkey,
      authorizedPubkey,
      votePubkey: new PublicKey(votePubkey),
    })
    await node.land([...create.instructions, ...delegate.instructions], [from, stake])
    const { delegation } = (await parsed(stakePubkey)).stake
    expect(delegation).toMatchObject({ stake: String(delegated), voter: votePubkey })
    const activation = Number(delegation.activationEpoch)
    expect((await validator())!.activatedStake).toBe(activatedStake)
    await nextEpoch()
    const history = (await parsed(SYSVAR_STAKE_HISTORY_PUBKEY)) as {
      epoch: number
      stakeHistory: { activating: number; effective: number }
    }[]
    expect(history.find(({ epoch }) => epoch === activation)?.stakeHistory).toMatchObject({
      effective: activatedStake,
      activating: delegated,
    })
    expect((await validator())!.activatedStake).toBe(activatedStake + delegated)

    const withdraw = StakeProgram.withdraw({
      stakePubkey,
      authorizedPubkey,
      toPubkey: from.publicKey,
      lamports: reserve + delegated,
    })
    await node.land(StakeProgram.deactivate({ stakePubkey, authorizedPubkey }).instructions, [from])
    await expect(node.land(withdraw.instructions, [from])).rejects.toThrow(/insufficient funds/)
    const ends = Number((await parsed(stakePubkey)).stake.delegation.deactivationEpoch)
    expect(ends).toBe(await epochNow())
    await nextEpoch()
    expect((await validator())!.activatedStake).toBe(activatedStake)
    await node.land(withdraw.instructions, [from])
    expect(await connection.getAccountInfo(stakePubkey, 'processed')).toBeNull()
  })
})
