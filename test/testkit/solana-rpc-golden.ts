// The shapes of every Solana method's answer, in golden files: inside v1 fields are only
// added. Every name of the list that the meters know is asked for here.
import { Keypair } from '@solana/web3.js'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { methodLabels } from '../../src/products/rpc/meters.ts'
import { expectShape } from './golden.ts'
import { type SolanaNode, transfer } from './solana-node.ts'
import {
  approve,
  createMint,
  createTokenAccount,
  mintBytes,
  mintTo,
  tokenAccountBytes,
  tokenProgram,
} from './token-instructions.ts'
import { until } from './until.ts'

/** `start` opens the server that is asked; it is disposed of at the end. */
export function describeRpcShapes(start: () => Promise<SolanaNode>): void {
  let node: SolanaNode
  let owner: Keypair
  let slot = 0
  let signature = ''
  const mint = Keypair.generate()
  const account = Keypair.generate()
  const delegate = Keypair.generate().publicKey
  const asked = new Set<string>()

  const processed = { commitment: 'processed' }
  const confirmed = { commitment: 'confirmed', maxSupportedTransactionVersion: 0 }
  const name = (keypair: Keypair) => keypair.publicKey.toBase58()

  beforeAll(async () => {
    node = await start()
    owner = await node.funded()
    const { connection } = node
    const lamports = await connection.getMinimumBalanceForRentExemption(tokenAccountBytes)
    const of = { mint: mint.publicKey, owner: owner.publicKey, lamports }
    const mintRent = await connection.getMinimumBalanceForRentExemption(mintBytes)
    signature = await node.land(
      [
        ...createMint(owner, mint, mintRent),
        ...createTokenAccount(owner, account, of),
        mintTo(mint.publicKey, account.publicKey, owner.publicKey, 5n),
        approve(account.publicKey, delegate, owner.publicKey, 1n),
      ],
      [owner, mint, account],
    )
    await node.reached(signature, 'confirmed')
    await until(async () => (await node.call('getSlot')).result > 0, 'a finalized slot')
    slot = (await node.call('getTransaction', signature, confirmed)).result.slot
  })
  afterAll(() => node?.dispose())

  async function ask(method: string, ...params: unknown[]) {
    asked.add(method)
    const { result, error } = await node.call(method, ...params)
    return error ?? result
  }

  /** The answers of some methods, each to its params, in one golden file. */
  async function holds(file: string, calls: Readonly<Record<string, readonly unknown[]>>) {
    const answers: Record<string, unknown> = {}
    for (const [method, params] of Object.entries(calls))
      answers[method] = await ask(method.split(' ')[0]!, ...params)
    expectShape(`solana-rpc/${file}`, answers)
  }

  describe('golden shapes of the Solana methods', () => {
    it('match accounts and tokens', async () => {
      const parsed = { ...processed, encoding: 'jsonParsed' }
      const base64 = { ...processed, encoding: 'base64' }
      await holds('accounts', {
        getAccountInfo: [name(account), base64],
        'getAccountInfo parsed': [name(account), parsed],
        'getAccountInfo mint': [name(mint), parsed],
        getBalance: [name(owner), processed],
        getMultipleAccounts: [[name(owner), name(account)], processed],
        getProgramAccounts: [tokenProgram.toBase58(), base64],
        'getProgramAccounts in context': [
          tokenProgram.toBase58(),
          { ...base64, withContext: true, filters: [{ dataSize: mintBytes }] },
        ],
        getLargestAccounts: [],
        getSupply: [],
        getMinimumBalanceForRentExemption: [0],
        getTokenAccountBalance: [name(account), processed],
        getTokenSupply: [name(mint), processed],
        getTokenLargestAccounts: [name(mint), processed],
        getTokenAccountsByOwner: [name(owner), { mint: name(mint) }, parsed],
        getTokenAccountsByDelegate: [
          delegate.toBase58(),
          { programId: tokenProgram.toBase58() },
          base64,
        ],
      })
    })

    it('match blocks and transactions', async () => {
      const young = await node.land([transfer(owner, owner.publicKey, 1)], [owner])
      await node.reached(young, 'confirmed')
      await holds('history', {
        // First: a finalized transaction has no number of confirmations.
        getSignatureStatuses: [[young]],
        getBlock: [slot, confirmed],
        'getBlock accounts': [slot, { ...confirmed, transactionDetails: 'accounts' }],
        'getBlock signatures': [slot, { ...confirmed, transactionDetails: 'signatures' }],
        'getBlock missing': [9_000_000],
        getBlockTime: [slot],
        getBlocks: [slot, slot + 1, { commitment: 'confirmed' }],
        getBlocksWithLimit: [0, 2],
        getFirstAvailableBlock: [],
        minimumLedgerSlot: [],
        getTransaction: [signature, confirmed],
        'getTransaction parsed': [signature, { ...confirmed, encoding: 'jsonParsed' }],
        'getTransaction base64': [signature, { ...confirmed, encoding: 'base64' }],
        getSignaturesForAddress: [name(mint), { commitment: 'confirmed' }],
        getLatestBlockhash: [],
        isBlockhashValid: [name(mint)],
        getRecentPrioritizationFees: [],
        getRecentPerformanceSamples: [],
      })
    })

    it('match submission', async () => {
      const to = (await node.funded()).publicKey
      const encoding = { encoding: 'base64', ...processed }
      const wire = async (lamports: number) =>
        (await node.signed([transfer(owner, to, lamports)], [owner])).toString('base64')
      const simulation = { ...encoding, accounts: { addresses: [to.toBase58()] } }
      const message = Buffer.from(await wire(1), 'base64').subarray(65)
      await holds('submission', {
        simulateTransaction: [await wire(2), { ...simulation, innerInstructions: true }],
        'simulateTransaction failing': [await wire(1e12), encoding],
        sendTransaction: [await wire(3), encoding],
        'sendTransaction failing': [await wire(1e12), encoding],
        requestAirdrop: [name(owner), 1],
        getFeeForMessage: [message.toString('base64'), processed],
      })
    })

    it('match the cluster', async () => {
      const identity = name(mint)
      await holds('cluster', {
        // First: a finalized slot has no commitment.
        getBlockCommitment: [(await node.call('getSlot', processed)).result - 1],
        getSlot: [],
        'getSlot ahead': [{ minContextSlot: 9_000_000 }],
        getBlockHeight: [],
        getTransactionCount: [],
        getEpochInfo: [],
        getEpochSchedule: [],
        getGenesisHash: [],
        getIdentity: [],
        getHealth: [],
        getVersion: [],
        getMaxRetransmitSlot: [],
        getMaxShredInsertSlot: [],
        getHighestSnapshotSlot: [],
        getAgGenesisCert: [],
        getSlotLeader: [],
        getSlotLeaders: [0, 1],
        getLeaderSchedule: [null, { identity }],
        getBlockProduction: [{ identity }],
        getClusterNodes: [],
        getVoteAccounts: [],
        getInflationGovernor: [],
        getInflationRate: [],
        getInflationReward: [[name(owner)]],
        getStakeMinimumDelegation: [],
      })
    })

    it('leaves no method out', () => {
      expect(methodLabels.filter((label) => label !== 'other' && !asked.has(label))).toEqual([])
    })
  })
}
