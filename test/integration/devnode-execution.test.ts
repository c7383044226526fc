// Unmodified clients against a devnode and a gateway in front of one: fees, limits, simulations and airdrops as a validator's.
import {
  appendTransactionMessageInstruction,
  createTransactionMessage,
  estimateAndSetResourceLimitsFactory,
  estimateResourceLimitsFactory,
  generateKeyPairSigner,
  getBase64EncodedWireTransaction,
  lamports,
  pipe,
  setTransactionMessageFeePayerSigner,
  setTransactionMessageLifetimeUsingBlockhash,
  signTransactionMessageWithSigners,
} from '@solana/kit'
import {
  AddressLookupTableAccount,
  AddressLookupTableProgram,
  ComputeBudgetProgram,
  Keypair,
  MessageV0,
  NONCE_ACCOUNT_LENGTH,
  NonceAccount,
  PublicKey,
  SystemProgram,
  Transaction,
  TransactionInstruction,
  VersionedTransaction,
} from '@solana/web3.js'
import { getTransferSolInstruction } from '@solana-program/system'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { encodeBase58 } from '../../src/chain/solana/base58.ts'
import { devnodeAndGateway, type SolanaNode, signedWith, transfer } from '../testkit/solana-node.ts'
import { kitOf } from '../testkit/solana-rpc-kit.ts'
import { until } from '../testkit/until.ts'

const memoProgram = new PublicKey('MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr')
const base64 = { encoding: 'base64', preflightCommitment: 'processed' }

let node: SolanaNode

const call = (program: PublicKey, text = '') =>
  new TransactionInstruction({ programId: program, keys: [], data: Buffer.from(text) })

function limit(bytes: number): TransactionInstruction {
  const data = Buffer.alloc(5)
  data[0] = 4
  data.writeUInt32LE(bytes, 1)
  const { programId } = ComputeBudgetProgram
  return new TransactionInstruction({ programId, keys: [], data })
}

async function simulated(bytes: Uint8Array, more: object = {}) {
  const text = Buffer.from(bytes).toString('base64')
  const { result } = await node.call('simulateTransaction', text, { ...base64, ...more })
  return result.value
}

async function landed(signature: string) {
  const config = { commitment: 'confirmed', maxSupportedTransactionVersion: 0 }
  await node.reached(signature, 'confirmed')
  return (await node.call('getTransaction', signature, config)).result
}

async function sendBlind(bytes: Uint8Array): Promise<string> {
  return node.connection.sendRawTransaction(bytes, { skipPreflight: true })
}

describe.each(devnodeAndGateway)('through %s', (_, start) => {
  beforeAll(async () => {
    node = await start()
  })
  afterAll(() => node?.dispose())

  describe('a transaction that cannot be loaded', () => {
    it('lands, pays its fee and has no logs', async () => {
      const plain = await node.funded()
      const cases = [
        [[call(Keypair.generate().publicKey)], 'ProgramAccountNotFound'],
        [[call(plain.publicKey)], 'InvalidProgramForExecution'],
        [[call(memoProgram, 'x'), limit(100)], 'MaxLoadedAccountsDataSizeExceeded'],
      ] as const
      for (const [instructions, err] of cases) {
        const from = await node.funded()
        const bytes = await node.signed([...instructions], [from])
        expect(await simulated(bytes)).toMatchObject({
          err,
          fee: 5_000,
          loadedAccountsDataSize: 0,
          logs: [],
          unitsConsumed: 0,
          preBalances: expect.arrayContaining([10_000_000_000]),
          postBalances: expect.arrayContaining([9_999_995_000]),
        })
        const refused = node.connection.sendRawTransaction(bytes, {
          preflightCommitment: 'processed',
        })
        await expect(refused).rejects.toThrow('Transaction simulation failed')
        const { meta } = await landed(await sendBlind(bytes))
        expect(meta).toMatchObject({
          err,
          fee: 5_000,
          logMessages: null,
          innerInstructions: null,
          computeUnitsConsumed: 0,
        })
        expect(meta.preBalances[0] - meta.postBalances[0]).toBe(5_000)
        expect(await node.connection.getBalance(from.publicKey)).toBe(9_999_995_000)
      }
    })

    it('uses up its durable nonce, whose message has a fee', async () => {
      const from = await node.funded()
      const nonce = Keypair.generate()
      const create = SystemProgram.createNonceAccount({
        fromPubkey: from.publicKey,
        noncePubkey: nonce.publicKey,
        authorizedPubkey: from.publicKey,
        lamports: await node.connection.getMinimumBalanceForRentExemption(NONCE_ACCOUNT_LENGTH),
      })
      const created = await node.land(create.instructions, [from, nonce])
      const value = async () => {
        const info = await node.connection.getAccountInfo(nonce.publicKey, 'processed')
        return NonceAccount.fromAccountData(info!.data).nonce
      }
      await node.reached(created, 'confirmed')
      const first = await value()
      const noncePubkey = nonce.publicKey
      const advance = SystemProgram.nonceAdvance({ noncePubkey, authorizedPubkey: from.publicKey })
      const missing = call(Keypair.generate().publicKey)
      const transaction = new Transaction({ feePayer: from.publicKey, recentBlockhash: first })
      transaction.add(advance, missing).sign(from)
      const fee = () => node.connection.getFeeForMessage(transaction.compileMessage(), 'processed')
      expect((await fee()).value).toBe(5_000)
      const { meta } = await landed(await sendBlind(transaction.serialize()))
      expect(meta.err).toBe('ProgramAccountNotFound')
      expect(await value()).not.toBe(first)
      // The nonce was used up: the message has none any more.
      expect((await fee()).value).toBeNull()
      expect(await simulated(transaction.serialize())).toMatchObject({ err: 'BlockhashNotFound' })
    })
  })

  describe('loadedAccountsDataSize', () => {
    it('is the smallest limit with which the transaction runs', async () => {
      const from = await node.funded()
      const to = await node.funded()
      const token = new PublicKey('TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA')
      const several = [
        [transfer(from, to.publicKey, 1)],
        [call(memoProgram, 'hello')],
        [call(memoProgram, 'hello'), transfer(from, to.publicKey, 2), call(token)],
      ]
      for (const instructions of several) {
        const tried = async (bytes: number) =>
          simulated(await node.signed([...instructions, limit(bytes)], [from]))
        const { loadedAccountsDataSize: size } = await tried(1 << 26)
        const enough = await tried(size)
        expect(enough.err).not.toBe('MaxLoadedAccountsDataSizeExceeded')
        expect(enough.loadedAccountsDataSize).toBe(size)
        expect((await tried(size - 1)).err).toBe('MaxLoadedAccountsDataSizeExceeded')
      }
    })

    it('refuses a forged signature in preflight, and drops it without', async () => {
      const from = await node.funded()
      const bytes = await node.signed([transfer(from, Keypair.generate().publicKey, 1e9)], [from])
      bytes[5]! ^= 1
      const text = Buffer.from(bytes).toString('base64')
      const { error } = await node.call('sendTransaction', text, base64)
      expect(error).toMatchObject({
        code: -32002,
        message: 'Transaction simulation failed: Transaction did not pass signature verification',
        data: { err: 'SignatureFailure', logs: [], unitsConsumed: 0 },
      })
      const checked = { ...base64, sigVerify: true }
      const { result } = await node.call('simulateTransaction', text, checked)
      expect(result.value.err).toBe('SignatureFailure')
      const sent = await node.call('sendTransaction', text, { ...base64, skipPreflight: true })
      expect(sent.result).toBe(encodeBase58(bytes.subarray(1, 65)))
      // Nothing of it lands: the next one of the same payer does.
      await node.land([transfer(from, Keypair.generate().publicKey, 1e9)], [from])
      const { value } = (await node.call('getSignatureStatuses', [sent.result])).result
      expect(value).toEqual([null])
    })

    it('counts 8,248 bytes for a lookup table', async () => {
      const from = await node.funded()
      const to = await node.funded()
      const blockhash = async () =>
        (await node.connection.getLatestBlockhash('processed')).blockhash
      const { publicKey: payerKey } = from
      const [create, table] = AddressLookupTableProgram.createLookupTable({
        authority: payerKey,
        payer: payerKey,
        recentSlot: await node.connection.getSlot('confirmed'),
      })
      const addresses = [to.publicKey]
      const extend = AddressLookupTableProgram.extendLookupTable({
        lookupTable: table,
        authority: payerKey,
        payer: payerKey,
        addresses,
      })
      await node.reached(await node.land([create, extend], [from]), 'confirmed')
      const info = await node.connection.getAccountInfo(table, 'processed')
      const state = AddressLookupTableAccount.deserialize(info!.data)
      const signed = async (...tables: AddressLookupTableAccount[]) => {
        const message = MessageV0.compile({
          payerKey,
          recentBlockhash: await blockhash(),
          instructions: [transfer(from, to.publicKey, 1)],
          addressLookupTableAccounts: tables,
        })
        const transaction = new VersionedTransaction(message)
        transaction.sign([from])
        return transaction.serialize()
      }
      const known = new AddressLookupTableAccount({ key: table, state })
      const sizes = [await simulated(await signed()), await simulated(await signed(known))]
      expect(sizes.map((one) => one.loadedAccountsDataSize)).toEqual([213, 213 + 8_248])
      expect(sizes[1].loadedAddresses.writable).toEqual([to.publicKey.toBase58()])
      // A table that is not there: nothing is simulated.
      const absent = new AddressLookupTableAccount({ key: Keypair.generate().publicKey, state })
      const text = Buffer.from(await signed(absent)).toString('base64')
      for (const [method, more] of [
        ['simulateTransaction', {}],
        ['sendTransaction', {}],
        ['sendTransaction', { skipPreflight: true }],
      ] as const)
        expect((await node.call(method, text, { ...base64, ...more })).error).toEqual({
          code: -32602,
          message:
            "invalid transaction: Transaction loads an address table account that doesn't exist",
        })
    })

    it('serves the estimates of kit', async () => {
      const rpc = kitOf(node)
      const source = await generateKeyPairSigner()
      await rpc.requestAirdrop(source.address, lamports(10_000_000_000n)).send()
      const { address: destination } = await generateKeyPairSigner()
      const { value } = await rpc.getLatestBlockhash({ commitment: 'processed' }).send()
      const message = pipe(
        createTransactionMessage({ version: 0 }),
        (draft) => setTransactionMessageFeePayerSigner(source, draft),
        (draft) => setTransactionMessageLifetimeUsingBlockhash(value, draft),
        (draft) =>
          appendTransactionMessageInstruction(
            getTransferSolInstruction({ source, destination, amount: 5_000_000n }),
            draft,
          ),
      )
      const estimate = estimateResourceLimitsFactory({ rpc })
      const limits = await estimate(message)
      expect(limits.loadedAccountsDataSizeLimit).toBeGreaterThan(200)
      const limited = await estimateAndSetResourceLimitsFactory(estimate)(message)
      const wire = getBase64EncodedWireTransaction(await signTransactionMessageWithSigners(limited))
      const config = { encoding: 'base64', preflightCommitment: 'processed' } as const
      const signature = await rpc.sendTransaction(wire, config).send()
      expect((await landed(signature)).meta.err).toBeNull()
    })
  })

  describe('a simulation', () => {
    it('that fails subtracts the fee', async () => {
      const from = await node.funded()
      const to = await node.funded()
      const bytes = await node.signed([transfer(from, to.publicKey, 1e12)], [from])
      expect(await simulated(bytes)).toMatchObject({
        err: { InstructionError: [0, { Custom: 1 }] },
        fee: 5_000,
        preBalances: [10_000_000_000, 10_000_000_000, 1],
        postBalances: [9_999_995_000, 10_000_000_000, 1],
        unitsConsumed: 150,
      })
      expect(await node.connection.getBalance(from.publicKey)).toBe(10_000_000_000)
    })

    it('that the chain refuses has no fee and loads nothing', async () => {
      const from = await node.funded()
      const unknown = new PublicKey(new Uint8Array(32).fill(7)).toBase58()
      const bytes = signedWith(unknown, [transfer(from, from.publicKey, 1)], [from])
      expect(await simulated(bytes, { innerInstructions: true })).toMatchObject({
        err: 'BlockhashNotFound',
        fee: null,
        innerInstructions: null,
        loadedAccountsDataSize: 0,
        logs: [],
        preBalances: [10_000_000_000, 1],
        postBalances: [10_000_000_000, 1],
        unitsConsumed: 0,
      })
      const { result } = await node.call('simulateTransaction', bytes.toString('base64'), {
        ...base64,
        replaceRecentBlockhash: true,
      })
      expect(result.value).toMatchObject({
        err: null,
        replacementBlockhash: { lastValidBlockHeight: expect.any(Number) },
      })
    })

    it('reads the accounts to show only when it succeeded', async () => {
      const from = await node.funded()
      const to = await node.funded()
      const asked = (addresses: unknown[], encoding = 'base64') => ({
        ...base64,
        accounts: { addresses, encoding },
      })
      const error = async (amount: number, accounts: object) => {
        const bytes = await node.signed([transfer(from, to.publicKey, amount)], [from])
        return node.call('simulateTransaction', bytes.toString('base64'), accounts)
      }
      const messages = [
        await error(1, asked(['x'])),
        await error(1, asked(['a', 'b', 'c', 'd'])),
        await error(1, asked([], 'base58')),
      ].map((answer) => answer.error?.message)
      expect(messages).toEqual([
        'Invalid param: WrongSize',
        'Too many accounts provided; max 3',
        'base58 encoding not supported',
      ])
      const failed = await error(1e12, asked(['x', to.publicKey.toBase58()]))
      expect(failed.result.value.accounts).toEqual([null, null])
    })
  })

  describe('costUnits', () => {
    it('are reported with a landed transaction', async () => {
      const from = await node.funded()
      const to = await node.funded()
      const signature = await node.land([transfer(from, to.publicKey, 1)], [from])
      const { meta } = await landed(signature)
      // 720 for the signature, 2 write locks of 300, 12 bytes of data, 150 units, one page.
      expect(meta.costUnits).toBe(720 + 600 + 3 + 150 + 8)
    })
  })

  describe('requestAirdrop', () => {
    it('is one transfer, answered with its signature whatever becomes of it', async () => {
      const to = Keypair.generate()
      const signature = await node.connection.requestAirdrop(to.publicKey, 1)
      const failed = await landed(signature)
      expect(failed.meta.err).toEqual({ InsufficientFundsForRent: { account_index: 1 } })
      expect(failed.transaction.message.instructions).toHaveLength(1)
      const good = await landed(await node.connection.requestAirdrop(to.publicKey, 2e15))
      expect(good.meta.err).toBeNull()
      expect(good.meta.logMessages).toEqual([
        'Program 11111111111111111111111111111111 invoke [1]',
        'Program 11111111111111111111111111111111 success',
      ])
    })

    it('differs from equal ones of the same slot, unless the caller gives the blockhash', async () => {
      const to = Keypair.generate()
      await until(async () => (await node.connection.getBlockHeight('processed')) > 20, 'blocks')
      const all = await Promise.all(
        Array.from({ length: 12 }, () => node.connection.requestAirdrop(to.publicKey, 1_000_000)),
      )
      expect(new Set(all).size).toBe(12)
      await Promise.all(all.map((signature) => node.reached(signature, 'confirmed')))
      expect(await node.connection.getBalance(to.publicKey, 'confirmed')).toBe(12_000_000)
      const { blockhash } = await node.connection.getLatestBlockhash('processed')
      const config = { recentBlockhash: blockhash }
      const given = () => node.call('requestAirdrop', to.publicKey.toBase58(), 2_000_000, config)
      const { result } = await given()
      expect((await given()).result).toBe(result)
      const transaction = (await landed(result)).transaction
      expect(transaction.message.recentBlockhash).toBe(blockhash)
    })
  })
})
