// Unmodified @solana/web3.js 1.x; run against a chain of our own and through the proxy.
import {
  AddressLookupTableProgram,
  Keypair,
  NONCE_ACCOUNT_LENGTH,
  PublicKey,
  SystemProgram,
  TransactionMessage,
  VersionedTransaction,
} from '@solana/web3.js'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type SolanaNode, signedWith, transfer } from './solana-node.ts'
import {
  approve,
  createMint,
  createTokenAccount,
  mintBytes,
  mintTo,
  tokenAccountBytes,
  tokenProgram,
  transferChecked,
} from './token-instructions.ts'
import { until } from './until.ts'

/** `start` opens the server that is asked; it is disposed of at the end. */
export function describeWeb3(start: () => Promise<SolanaNode>): void {
  let node: SolanaNode
  beforeAll(async () => {
    node = await start()
  })
  afterAll(() => node?.dispose())

  describe('web3.js', () => {
    it('airdrops, transfers and reads the transaction back at each commitment', async () => {
      const { connection } = node
      const from = await node.funded()
      const to = Keypair.generate().publicKey
      const signature = await node.land([transfer(from, to, 5_000_000)], [from])
      expect(await connection.getBalance(to, 'processed')).toBe(5_000_000)
      const early = await connection.getBalance(to, 'finalized')
      const { value: status } = await connection.getSignatureStatus(signature)
      if (status?.confirmationStatus !== 'finalized') expect(early).toBe(0)
      await node.reached(signature, 'confirmed')
      const landed = await connection.getTransaction(signature, {
        commitment: 'confirmed',
        maxSupportedTransactionVersion: 0,
      })
      expect(landed?.meta).toMatchObject({ err: null, fee: 5000, rewards: [] })
      expect(landed?.meta?.postBalances.slice(0, 2)).toEqual([9_994_995_000, 5_000_000])
      expect(landed?.version).toBe('legacy')
      expect(landed?.transaction.signatures).toEqual([signature])
      const parsed = await connection.getParsedTransaction(signature, 'confirmed')
      expect(parsed?.transaction.message.instructions[0]).toMatchObject({
        program: 'system',
        parsed: {
          type: 'transfer',
          info: { source: from.publicKey.toBase58(), lamports: 5_000_000 },
        },
      })
      const [entry] = await connection.getSignaturesForAddress(to, { limit: 5 }, 'confirmed')
      expect(entry).toMatchObject({ signature, err: null, memo: null, slot: landed?.slot })
      await node.reached(signature, 'finalized')
      expect(await connection.getBalance(to, 'finalized')).toBe(5_000_000)
      const block = await connection.getBlock(landed!.slot, {
        commitment: 'finalized',
        maxSupportedTransactionVersion: 0,
      })
      expect(block?.transactions.map((one) => one.transaction.signatures[0])).toContain(signature)
      const signatures = await connection.getBlockSignatures(landed!.slot, 'finalized')
      expect(signatures.signatures).toContain(signature)
      expect(await connection.getBlockTime(landed!.slot)).toBe(landed!.blockTime)
      const parsedBlock = await connection.getParsedBlock(landed!.slot, {
        commitment: 'finalized',
        maxSupportedTransactionVersion: 0,
      })
      expect(parsedBlock.blockhash).toBe(block?.blockhash)
    })

    it('mints and moves tokens, and finds them by owner, mint, delegate and filters', async () => {
      const { connection } = node
      const owner = await node.funded()
      const [mint, first, second] = [Keypair.generate(), Keypair.generate(), Keypair.generate()]
      const rent = await connection.getMinimumBalanceForRentExemption(tokenAccountBytes)
      const mintRent = await connection.getMinimumBalanceForRentExemption(mintBytes)
      const of = { mint: mint.publicKey, owner: owner.publicKey, lamports: rent }
      const delegate = Keypair.generate().publicKey
      await node.land(
        [
          ...createMint(owner, mint, mintRent),
          ...createTokenAccount(owner, first, of),
          ...createTokenAccount(owner, second, of),
        ],
        [owner, mint, first, second],
      )
      const move = { source: first.publicKey, mint: mint.publicKey, destination: second.publicKey }
      const signature = await node.land(
        [
          mintTo(mint.publicKey, first.publicKey, owner.publicKey, 3_500_000n),
          transferChecked({ ...move, owner: owner.publicKey }, 1_250_000n),
          approve(second.publicKey, delegate, owner.publicKey, 7n),
        ],
        [owner],
      )
      const balance = await connection.getTokenAccountBalance(second.publicKey, 'processed')
      expect(balance.value).toEqual({
        amount: '1250000',
        decimals: 6,
        uiAmount: 1.25,
        uiAmountString: '1.25',
      })
      const supply = await connection.getTokenSupply(mint.publicKey, 'processed')
      expect(supply.value.uiAmountString).toBe('3.5')
      const largest = await connection.getTokenLargestAccounts(mint.publicKey, 'processed')
      expect(largest.value.map(({ amount }) => amount)).toEqual(['2250000', '1250000'])
      const byOwner = await connection.getParsedTokenAccountsByOwner(
        owner.publicKey,
        { programId: tokenProgram },
        'processed',
      )
      expect(byOwner.value).toHaveLength(2)
      const delegated = byOwner.value.find(({ pubkey }) => pubkey.equals(second.publicKey))
      expect(delegated?.account.data.parsed.info).toMatchObject({
        delegate: delegate.toBase58(),
        delegatedAmount: { amount: '7' },
        tokenAmount: { uiAmountString: '1.25' },
      })
      const byMint = await connection.getTokenAccountsByOwner(
        owner.publicKey,
        { mint: mint.publicKey },
        'processed',
      )
      expect(byMint.value).toHaveLength(2)
      const filters = [
        { dataSize: tokenAccountBytes },
        { memcmp: { offset: 0, bytes: mint.publicKey.toBase58() } },
        { memcmp: { offset: 32, bytes: owner.publicKey.toBase58() } },
      ]
      const found = await connection.getProgramAccounts(tokenProgram, {
        commitment: 'processed',
        filters,
        dataSlice: { offset: 64, length: 8 },
      })
      expect(found.map(({ account }) => account.data.readBigUInt64LE(0)).sort()).toEqual([
        1_250_000n,
        2_250_000n,
      ])
      const byDelegate = await node.call(
        'getTokenAccountsByDelegate',
        delegate.toBase58(),
        { programId: tokenProgram.toBase58() },
        { commitment: 'processed', encoding: 'jsonParsed' },
      )
      expect(byDelegate.result.value[0].pubkey).toBe(second.publicKey.toBase58())
      await node.reached(signature, 'confirmed')
      const landed = await connection.getTransaction(signature, {
        commitment: 'confirmed',
        maxSupportedTransactionVersion: 0,
      })
      const held = landed?.meta?.postTokenBalances?.map((one) => one.uiTokenAmount.amount)
      expect(held?.sort()).toEqual(['1250000', '2250000'])
    })

    it('simulates, and returns the fee of a message', async () => {
      const { connection } = node
      const from = await node.funded()
      const to = Keypair.generate().publicKey
      const { blockhash } = await connection.getLatestBlockhash('processed')
      const message = new TransactionMessage({
        payerKey: from.publicKey,
        recentBlockhash: blockhash,
        instructions: [transfer(from, to, 2_000_000)],
      }).compileToV0Message()
      const transaction = new VersionedTransaction(message)
      transaction.sign([from])
      const { value } = await connection.simulateTransaction(transaction, {
        sigVerify: true,
        commitment: 'processed',
        accounts: { encoding: 'base64', addresses: [to.toBase58()] },
      })
      expect(value).toMatchObject({ err: null, unitsConsumed: 150 })
      expect(value.accounts?.[0]).toMatchObject({ lamports: 2_000_000 })
      expect(await connection.getBalance(to, 'processed')).toBe(0)
      expect((await connection.getFeeForMessage(message, 'processed')).value).toBe(5000)
    })

    it('sends a transaction that takes addresses from a lookup table', async () => {
      const { connection } = node
      const from = await node.funded()
      const to = Keypair.generate().publicKey
      const [create, table] = AddressLookupTableProgram.createLookupTable({
        authority: from.publicKey,
        payer: from.publicKey,
        recentSlot: await connection.getSlot('processed'),
      })
      const extend = AddressLookupTableProgram.extendLookupTable({
        lookupTable: table,
        authority: from.publicKey,
        payer: from.publicKey,
        addresses: [to],
      })
      await node.reached(await node.land([create, extend], [from]), 'confirmed')
      const known = await connection.getAddressLookupTable(table, { commitment: 'processed' })
      expect(known.value?.state.addresses).toEqual([to])
      const { blockhash } = await connection.getLatestBlockhash('processed')
      const message = new TransactionMessage({
        payerKey: from.publicKey,
        recentBlockhash: blockhash,
        instructions: [transfer(from, to, 3_000_000)],
      }).compileToV0Message([known.value!])
      const transaction = new VersionedTransaction(message)
      transaction.sign([from])
      const signature = await connection.sendTransaction(transaction, {
        preflightCommitment: 'processed',
      })
      await node.reached(signature, 'confirmed')
      const landed = await connection.getTransaction(signature, {
        commitment: 'confirmed',
        maxSupportedTransactionVersion: 0,
      })
      expect(landed?.version).toBe(0)
      expect(landed?.meta?.loadedAddresses?.writable).toEqual([to])
      const { error } = await node.call('getTransaction', signature, { commitment: 'confirmed' })
      expect(error?.code).toBe(-32015)
      expect(error?.message).toContain('"maxSupportedTransactionVersion": 0')
      const shown = await node.call('getAccountInfo', table.toBase58(), {
        commitment: 'processed',
        encoding: 'jsonParsed',
      })
      expect(shown.result.value.data.parsed).toMatchObject({
        type: 'lookupTable',
        info: { addresses: [to.toBase58()], authority: from.publicKey.toBase58() },
      })
    })

    it('uses a durable nonce', async () => {
      const { connection } = node
      const from = await node.funded()
      const nonce = Keypair.generate()
      const create = SystemProgram.createNonceAccount({
        fromPubkey: from.publicKey,
        noncePubkey: nonce.publicKey,
        authorizedPubkey: from.publicKey,
        lamports: await connection.getMinimumBalanceForRentExemption(NONCE_ACCOUNT_LENGTH),
      })
      const made = await node.land(create.instructions, [from, nonce])
      await node.reached(made, 'confirmed')
      const before = await connection.getNonce(nonce.publicKey, 'processed')
      const advance = SystemProgram.nonceAdvance({
        noncePubkey: nonce.publicKey,
        authorizedPubkey: from.publicKey,
      })
      const to = Keypair.generate().publicKey
      const bytes = signedWith(before!.nonce, [advance, transfer(from, to, 2_000_000)], [from])
      await connection.sendRawTransaction(bytes, { preflightCommitment: 'processed' })
      expect(await connection.getBalance(to, 'processed')).toBe(2_000_000)
      const after = await connection.getNonce(nonce.publicKey, 'processed')
      expect(after?.nonce).not.toBe(before?.nonce)
      const shown = await connection.getParsedAccountInfo(nonce.publicKey, 'processed')
      expect(shown.value?.data).toMatchObject({
        program: 'nonce',
        parsed: { type: 'initialized', info: { blockhash: after?.nonce } },
      })
    })

    it('returns the state of the cluster', async () => {
      const { connection } = node
      const info = await connection.getEpochInfo('processed')
      expect(info.slotsInEpoch).toBe(432_000)
      expect((await connection.getSupply()).value.total).toBeGreaterThan(0)
      expect((await connection.getLargestAccounts()).value).toHaveLength(20)
      expect(await connection.getClusterNodes()).toHaveLength(1)
      const { current } = await connection.getVoteAccounts('processed')
      expect(current.map(({ nodePubkey }) => nodePubkey)).toEqual([
        (await node.call('getIdentity')).result.identity,
      ])
      const slot = await connection.getSlot('confirmed')
      expect(await connection.getBlocks(slot - 3, slot, 'confirmed')).toEqual([
        slot - 3,
        slot - 2,
        slot - 1,
        slot,
      ])
      const leader = new PublicKey(await connection.getSlotLeader())
      expect(await connection.getSlotLeaders(slot, 2)).toEqual([leader, leader])
      expect((await connection.getStakeMinimumDelegation()).value).toBe(1_000_000_000)
      expect((await connection.getRecentPrioritizationFees()).length).toBeGreaterThan(0)
      expect(await connection.getGenesisHash()).toMatch(/^[1-9A-HJ-NP-Za-km-z]{43,44}$/)
      const count = await connection.getTransactionCount('processed')
      await node.funded()
      await until(
        async () => (await connection.getTransactionCount('processed')) > count,
        'more transactions',
      )
    })
  })
}
