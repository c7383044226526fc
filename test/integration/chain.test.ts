// The embedded chain: real execution, blocks, commitments.
import {
  AddressLookupTableAccount,
  AddressLookupTableProgram,
  ComputeBudgetProgram,
  Keypair,
  MessageV0,
  NONCE_ACCOUNT_LENGTH,
  PublicKey,
  SystemProgram,
  Transaction,
  TransactionInstruction,
  VersionedTransaction,
} from '@solana/web3.js'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { programs, sysvars } from '../../src/chain/solana/programs.ts'
import { slotStatus } from '../../src/chain/solana/updates.ts'
import { newestShapes } from '../../src/chain/solana/version.ts'
import { ChainStage, good } from '../testkit/chain-stage.ts'

const stage = new ChainStage({ traffic: 100 })
beforeAll(() => stage.start())
afterAll(() => stage.dispose())

function funded(lamports = 10_000_000_000n): Keypair {
  const keypair = Keypair.generate()
  good(stage.chain.requestAirdrop(keypair.publicKey.toBytes(), lamports))
  return keypair
}

function signed(
  instructions: TransactionInstruction[],
  signers: Keypair[],
  blockhash = stage.chain.ledger.latestBlockhash(0).blockhash,
): Uint8Array {
  const transaction = new Transaction({
    feePayer: signers[0]!.publicKey,
    recentBlockhash: blockhash,
  })
  transaction.add(...instructions).sign(...signers)
  return transaction.serialize()
}

const transfer = (from: Keypair, to: PublicKey, lamports: number) =>
  SystemProgram.transfer({ fromPubkey: from.publicKey, toPubkey: to, lamports })

const submit = (bytes: Uint8Array) => stage.chain.submit(bytes, { isVerified: false })

function errorOf(bytes: Uint8Array) {
  const outcome = submit(bytes)
  if (outcome.ok) return outcome.value.err
  return (outcome.refusal.data as { err?: unknown } | undefined)?.err ?? outcome.refusal.code
}

describe('the embedded chain', () => {
  it('executes a transfer at once and reports balances, fee and logs', async () => {
    const from = funded()
    const to = Keypair.generate().publicKey
    const { signature, slot, err } = good(submit(signed([transfer(from, to, 5_000_000)], [from])))
    expect(err).toBeNull()
    const { ledger } = stage.chain
    expect(ledger.account(to.toBytes(), 0)?.lamports).toBe(5_000_000n)
    const landed = ledger.transaction(signature)!
    expect(landed.slot).toBe(slot)
    expect(landed.meta.fee).toBe(5_000n)
    expect(landed.meta.preBalances.slice(0, 2)).toEqual([10_000_000_000n, 0n])
    expect(landed.meta.postBalances.slice(0, 2)).toEqual([9_994_995_000n, 5_000_000n])
    expect(landed.meta.logMessages).toEqual([
      'Program 11111111111111111111111111111111 invoke [1]',
      'Program 11111111111111111111111111111111 success',
    ])
    expect(landed.meta.computeUnitsConsumed).toBe(150n)
    expect(
      ledger.signaturesForAddress(to.toBytes(), {
        shapes: newestShapes,
        limit: 10,
        before: null,
        until: null,
        commitment: 0,
      }),
    ).toHaveLength(1)
  })

  it('shows a write at each commitment when the slot reaches it', async () => {
    const from = funded()
    const to = Keypair.generate().publicKey
    const { slot, signature } = good(submit(signed([transfer(from, to, 5_000_000)], [from])))
    const { ledger } = stage.chain
    expect(ledger.account(to.toBytes(), 2)).toBeNull()
    expect(ledger.signatureStatus(signature)?.commitment).toBe(0)
    await stage.reached(slot!, 1)
    expect(ledger.account(to.toBytes(), 1)?.lamports).toBe(5_000_000n)
    await stage.reached(slot!, 2)
    expect(ledger.account(to.toBytes(), 2)?.slot).toBe(slot)
    expect(ledger.signatureStatus(signature)).toMatchObject({ confirmations: null, commitment: 2 })
  })

  it('links blocks to their parents and keeps their entries', async () => {
    const { ledger } = stage.chain
    await stage.reached(5, 1)
    const newest = ledger.slot(0)
    const block = ledger.block(newest)!
    const parent = ledger.block(newest - 1)!
    expect(block.previousBlockhash).toBe(parent.blockhash)
    expect(block.blockHeight).toBe(parent.blockHeight + 1)
    expect(block.entries.length).toBeGreaterThanOrEqual(64)
    const counted = block.entries.reduce((sum, entry) => sum + entry.executedTransactionCount, 0)
    expect(counted).toBe(block.transactionCount)
    expect(Buffer.from(block.entries.at(-1)!.hash)).toEqual(
      Buffer.from(new PublicKey(block.blockhash).toBytes()),
    )
  })

  it('gives the errors of a validator', async () => {
    const from = funded()
    const to = funded()
    const much = 1_000_000_000_000
    expect(errorOf(signed([transfer(from, to.publicKey, much)], [from]))).toEqual({
      InstructionError: [0, { Custom: 1 }],
    })
    expect(errorOf(signed([transfer(from, Keypair.generate().publicKey, 1)], [from]))).toEqual({
      InsufficientFundsForRent: { account_index: 1 },
    })
    const nobody = Keypair.generate()
    expect(errorOf(signed([transfer(nobody, to.publicKey, 1)], [nobody]))).toBe('AccountNotFound')
    const poor = funded(1_000_000n)
    const bid = ComputeBudgetProgram.setComputeUnitPrice({ microLamports: 10_000_000_000 })
    expect(errorOf(signed([bid, transfer(poor, to.publicKey, 1)], [poor]))).toBe(
      'InsufficientFundsForFee',
    )
    const unknown = new PublicKey(new Uint8Array(32).fill(7)).toBase58()
    expect(errorOf(signed([transfer(from, to.publicKey, 1)], [from], unknown))).toBe(
      'BlockhashNotFound',
    )
    const once = signed([transfer(from, to.publicKey, 7)], [from])
    expect(errorOf(once)).toBeNull()
    expect(errorOf(once)).toBe('AlreadyProcessed')
    const forged = Uint8Array.from(signed([transfer(from, to.publicKey, 8)], [from]))
    forged[5]! ^= 1
    expect(errorOf(forged)).toBe('SignatureFailure')
  })

  it('charges the fee that it reports, with and without a priority fee', async () => {
    const to = funded()
    const price = ComputeBudgetProgram.setComputeUnitPrice({ microLamports: 1_000_000 })
    const limit = ComputeBudgetProgram.setComputeUnitLimit({ units: 7_000 })
    for (const extra of [[], [price], [price, limit]]) {
      const from = funded()
      const bytes = signed([...extra, transfer(from, to.publicKey, 1_000)], [from])
      const { signature } = good(submit(bytes))
      const { meta } = stage.chain.ledger.transaction(signature)!
      expect(meta.preBalances[0]! - meta.postBalances[0]! - 1_000n).toBe(meta.fee)
      const message = bytes.subarray(65)
      expect(good(stage.chain.feeForMessage(message, 0))).toBe(meta.fee)
    }
  })

  it('advances durable nonces, also under a transaction that fails', async () => {
    const from = funded()
    const nonce = Keypair.generate()
    const { ledger } = stage.chain
    const create = SystemProgram.createNonceAccount({
      fromPubkey: from.publicKey,
      noncePubkey: nonce.publicKey,
      authorizedPubkey: from.publicKey,
      lamports: Number(ledger.rentExemptMinimum(NONCE_ACCOUNT_LENGTH)),
    })
    const { slot } = good(submit(signed(create.instructions, [from, nonce])))
    const value = () =>
      new PublicKey(ledger.account(nonce.publicKey.toBytes(), 0)!.data.subarray(40, 72)).toBase58()
    const advance = SystemProgram.nonceAdvance({
      noncePubkey: nonce.publicKey,
      authorizedPubkey: from.publicKey,
    })
    const to = Keypair.generate().publicKey
    const first = value()
    await stage.reached(slot!, 1)
    // Of two that use the same nonce, one lands.
    const outcomes = [2_000_000, 2_000_001].map((lamports) =>
      errorOf(signed([advance, transfer(from, to, lamports)], [from], first)),
    )
    expect(outcomes.filter((err) => err === null)).toHaveLength(1)
    expect(outcomes).toContain('BlockhashNotFound')
    const second = value()
    expect(second).not.toBe(first)
    await stage.reached(ledger.stateSlot(0), 0)
    expect(errorOf(signed([advance, transfer(from, to, 1e12)], [from], second))).toEqual({
      InstructionError: [1, { Custom: 1 }],
    })
    expect(value()).not.toBe(second)
    await stage.reached(ledger.stateSlot(0), 0)
    expect(errorOf(signed([advance, transfer(from, to, 3_000_000)], [from], second))).toBe(
      'BlockhashNotFound',
    )
  })

  it('loads addresses from a lookup table', async () => {
    const from = funded()
    const to = Keypair.generate().publicKey
    const { ledger } = stage.chain
    const [create, table] = AddressLookupTableProgram.createLookupTable({
      authority: from.publicKey,
      payer: from.publicKey,
      recentSlot: ledger.slot(0),
    })
    const extend = AddressLookupTableProgram.extendLookupTable({
      lookupTable: table,
      authority: from.publicKey,
      payer: from.publicKey,
      addresses: [to],
    })
    const { slot } = good(submit(signed([create, extend], [from])))
    await stage.reached(slot!, 0)
    const known = new AddressLookupTableAccount({
      key: table,
      state: AddressLookupTableAccount.deserialize(ledger.account(table.toBytes(), 0)!.data),
    })
    const message = MessageV0.compile({
      payerKey: from.publicKey,
      recentBlockhash: stage.chain.ledger.latestBlockhash(0).blockhash,
      instructions: [transfer(from, to, 3_000_000)],
      addressLookupTableAccounts: [known],
    })
    const transaction = new VersionedTransaction(message)
    transaction.sign([from])
    const { signature, err } = good(submit(transaction.serialize()))
    expect(err).toBeNull()
    const landed = ledger.transaction(signature)!
    expect(landed.version).toBe(0)
    expect(landed.meta.loadedWritableAddresses.map((key) => new PublicKey(key).toBase58())).toEqual(
      [to.toBase58()],
    )
    expect(landed.meta.postBalances.at(-1)).toBe(3_000_000n)
  })

  it('reports inner instructions, and indexes token accounts by owner', async () => {
    const from = funded()
    const { ledger } = stage.chain
    const mint = Keypair.generate()
    const tokenProgram = new PublicKey(programs.token)
    const atas = new PublicKey(programs.associatedToken)
    const [ata] = PublicKey.findProgramAddressSync(
      [from.publicKey.toBytes(), programs.token, mint.publicKey.toBytes()],
      atas,
    )
    const meta = (pubkey: PublicKey, isSigner: boolean, isWritable: boolean) => ({
      pubkey,
      isSigner,
      isWritable,
    })
    const initMint = Buffer.concat([
      Uint8Array.of(20, 2),
      from.publicKey.toBytes(),
      Uint8Array.of(0),
    ])
    const mintTo = Buffer.alloc(9)
    mintTo[0] = 7
    mintTo.writeBigUInt64LE(12_345n, 1)
    const instructions = [
      SystemProgram.createAccount({
        fromPubkey: from.publicKey,
        newAccountPubkey: mint.publicKey,
        lamports: Number(ledger.rentExemptMinimum(82)),
        space: 82,
        programId: tokenProgram,
      }),
      new TransactionInstruction({
        programId: tokenProgram,
        keys: [meta(mint.publicKey, false, true)],
        data: initMint,
      }),
      new TransactionInstruction({
        programId: atas,
        keys: [
          meta(from.publicKey, true, true),
          meta(ata, false, true),
          meta(from.publicKey, false, false),
          meta(mint.publicKey, false, false),
          meta(SystemProgram.programId, false, false),
          meta(tokenProgram, false, false),
        ],
        data: Buffer.alloc(0),
      }),
      new TransactionInstruction({
        programId: tokenProgram,
        keys: [
          meta(mint.publicKey, false, true),
          meta(ata, false, true),
          meta(from.publicKey, true, false),
        ],
        data: mintTo,
      }),
    ]
    const { signature, err } = good(submit(signed(instructions, [from, mint])))
    expect(err).toBeNull()
    const landed = ledger.transaction(signature)!
    expect(landed.meta.fee).toBe(10_000n)
    const [inner] = landed.meta.innerInstructions!
    expect(inner).toMatchObject({ index: 2 })
    expect(inner!.instructions.length).toBeGreaterThanOrEqual(3)
    expect(inner!.instructions[0]!.stackHeight).toBe(2)
    expect(landed.meta.preTokenBalances).toEqual([])
    expect(landed.meta.postTokenBalances).toMatchObject([{ amount: '12345', decimals: 2 }])
    const held = [...ledger.tokenAccounts('owner', from.publicKey.toBytes(), 0)]
    expect(held.map(({ pubkey }) => new PublicKey(pubkey).toBase58())).toEqual([ata.toBase58()])
    expect(held[0]!.rentEpoch).toBe(2n ** 64n - 1n)
    expect([...ledger.accountsByOwner(programs.token, 0)].length).toBeGreaterThan(32)
  })

  it('simulates without keeping anything', async () => {
    const from = funded()
    const to = Keypair.generate().publicKey
    const bytes = signed(
      [transfer(from, to, 4_000_000)],
      [from],
      new PublicKey(new Uint8Array(32).fill(9)).toBase58(),
    )
    const refused = good(
      stage.chain.simulate(bytes, { isBlockhashReplaced: false, mustVerify: true }),
    )
    expect(refused.err).toBe('BlockhashNotFound')
    const outcome = good(
      stage.chain.simulate(bytes, { isBlockhashReplaced: true, mustVerify: false }),
    )
    expect(outcome.err).toBeNull()
    expect(outcome.account(to.toBytes())?.lamports).toBe(4_000_000n)
    expect(outcome.balances?.postBalances[0]).toBe(10_000_000_000n - 4_005_000n)
    expect(stage.chain.ledger.account(to.toBytes(), 0)).toBeNull()
  })

  it('lands equal airdrops apart, also before its first slot ends', async () => {
    const young = new ChainStage({ slotMs: 10_000 })
    await young.start()
    const to = Keypair.generate().publicKey.toBytes()
    const all = [1, 2, 3].map(() => good(young.chain.requestAirdrop(to, 1_000_000n)))
    expect(new Set(all.map((signature) => Buffer.from(signature).toString('hex'))).size).toBe(3)
    expect(young.chain.ledger.newestAccount(to)?.lamports).toBe(3_000_000n)
    await young.dispose()
  })

  it('carries background traffic of transfers, tokens and memos', async () => {
    const { ledger } = stage.chain
    await stage.reached(ledger.slot(0) + 12, 0)
    const page = { limit: 1, before: null, until: null, commitment: 0 } as const
    const options = { ...page, shapes: newestShapes }
    const [token] = ledger.signaturesForAddress(programs.token, options)
    const { meta, err } = ledger.transaction(token!.signature)!
    expect(err).toBeNull()
    expect(meta.preTokenBalances).toHaveLength(2)
    const total = (balances: typeof meta.preTokenBalances) =>
      balances.reduce((sum, balance) => sum + BigInt(balance.amount), 0n)
    expect(total(meta.postTokenBalances)).toBe(total(meta.preTokenBalances))
    const [memo] = ledger.signaturesForAddress(programs.memo, options)
    expect(memo?.memo).toMatch(/^\[\d+\] sluice \d+$/)
    const mint = Buffer.from(meta.preTokenBalances[0]!.mint)
    expect(mint.length).toBeGreaterThan(0)
    const holders = [
      ...ledger.tokenAccounts('mint', new PublicKey(meta.preTokenBalances[0]!.mint).toBytes(), 0),
    ]
    expect(holders).toHaveLength(32)
    expect(ledger.prioritizationFees([], true).length).toBeGreaterThan(0)
    expect(ledger.account(sysvars.clock, 0)!.slot).toBe(ledger.stateSlot(0))
  })

  it('publishes updates in the order of geyser streams', async () => {
    await stage.reached(stage.chain.ledger.slot(0) + 3, 0)
    const slot = stage.chain.ledger.slot(0) - 2
    const told = stage.told.filter((update) => update.slot === slot)
    const kinds = told.map((update) =>
      update.kind === 'slot' ? `slot ${update.status}` : update.kind,
    )
    expect(kinds[0]).toBe(`slot ${slotStatus.firstShredReceived}`)
    const block = kinds.indexOf('block')
    expect(kinds[block + 1]).toBe('blockMeta')
    expect(kinds[block + 2]).toBe(`slot ${slotStatus.processed}`)
    expect(kinds.slice(block + 3)).toEqual([`slot ${slotStatus.confirmed}`])
    const update = told[block]!
    if (update.kind !== 'block') throw new Error('a block is told')
    expect(update.transactions).toHaveLength(kinds.filter((kind) => kind === 'transaction').length)
    expect(update.entries).toHaveLength(update.meta.entriesCount)
    const keys = update.accounts.map(({ pubkey }) => Buffer.from(pubkey).toString('hex'))
    expect(new Set(keys).size).toBe(keys.length)
  })
})
