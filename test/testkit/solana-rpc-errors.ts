// Errors of the rpc endpoint: a validator's codes, messages and data.
import { ComputeBudgetProgram, Keypair, PublicKey } from '@solana/web3.js'
import { decompress } from 'fzstd'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { encodeBase58 } from '../../src/chain/solana/base58.ts'
import { type SolanaNode, signedWith, transfer } from './solana-node.ts'

/** `start` opens the server that is asked; it is disposed of at the end. */
export function describeRpcErrors(start: () => Promise<SolanaNode>): void {
  let node: SolanaNode
  beforeAll(async () => {
    node = await start()
  })
  afterAll(() => node?.dispose())

  const base64 = { encoding: 'base64', preflightCommitment: 'processed' }

  async function send(bytes: Uint8Array, more: object = {}) {
    const text = Buffer.from(bytes).toString('base64')
    return node.call('sendTransaction', text, { ...base64, ...more })
  }

  async function errorOf(method: string, ...params: unknown[]) {
    const { error } = await node.call(method, ...params)
    return [error?.code, error?.message]
  }

  describe('sendTransaction', () => {
    it('answers a failing transaction with -32002 and what the simulation saw', async () => {
      const from = await node.funded()
      const to = await node.funded()
      const { error } = await send(await node.signed([transfer(from, to.publicKey, 1e12)], [from]))
      expect(error).toMatchObject({
        code: -32002,
        message:
          'Transaction simulation failed: ' +
          'Error processing Instruction 0: custom program error: 0x1',
        data: {
          accounts: null,
          err: { InstructionError: [0, { Custom: 1 }] },
          fee: 5_000,
          innerInstructions: null,
          loadedAccountsDataSize: 64 + 64 + 64 + 21,
          loadedAddresses: null,
          postBalances: null,
          preTokenBalances: null,
          replacementBlockhash: null,
          returnData: null,
          unitsConsumed: 150,
        },
      })
      expect(error?.data).toMatchObject({
        logs: [
          'Program 11111111111111111111111111111111 invoke [1]',
          'Transfer: insufficient lamports 9999995000, need 1000000000000',
          'Program 11111111111111111111111111111111 failed: custom program error: 0x1',
        ],
      })
    })

    it('distinguishes a missing account, an unknown blockhash and a duplicate', async () => {
      const from = await node.funded()
      const to = await node.funded()
      const nobody = Keypair.generate()
      const unknown = new PublicKey(new Uint8Array(32).fill(7)).toBase58()
      const poor = await send(await node.signed([transfer(nobody, to.publicKey, 1)], [nobody]))
      expect(poor.error).toMatchObject({
        message:
          'Transaction simulation failed: ' +
          'Attempt to debit an account but found no record of a prior credit.',
        data: { err: 'AccountNotFound', fee: null, loadedAccountsDataSize: 0, logs: [] },
      })
      const old = await send(signedWith(unknown, [transfer(from, to.publicKey, 1)], [from]))
      expect(old.error).toMatchObject({
        code: -32002,
        message: 'Transaction simulation failed: Blockhash not found',
        data: {
          err: 'BlockhashNotFound',
          fee: null,
          loadedAccountsDataSize: 0,
          unitsConsumed: 0,
        },
      })
      const once = await node.signed([transfer(from, to.publicKey, 1)], [from])
      const first = await send(once)
      expect(first.error).toBeUndefined()
      expect((await send(once)).error).toMatchObject({
        code: -32002,
        message: 'Transaction simulation failed: This transaction has already been processed',
        data: { err: 'AlreadyProcessed' },
      })
      // Without preflight a validator answers before it knows.
      expect((await send(once, { skipPreflight: true })).result).toBe(first.result)
    })

    it('lands a failing transaction when the preflight is skipped', async () => {
      const from = await node.funded()
      const to = await node.funded()
      const bytes = await node.signed([transfer(from, to.publicKey, 1e12)], [from])
      const { result } = await send(bytes, { skipPreflight: true })
      const statuses = await node.call('getSignatureStatuses', [result])
      expect(statuses.result.value[0]).toMatchObject({
        err: { InstructionError: [0, { Custom: 1 }] },
        status: { Err: { InstructionError: [0, { Custom: 1 }] } },
      })
    })

    it('reports forged signatures as the error of a simulation', async () => {
      const from = await node.funded()
      const to = await node.funded()
      const bytes = await node.signed([transfer(from, to.publicKey, 1)], [from])
      const forged = Uint8Array.from(bytes)
      forged[5]! ^= 1
      const preflight = await send(forged)
      expect(preflight.error).toEqual({
        code: -32002,
        message: 'Transaction simulation failed: Transaction did not pass signature verification',
        data: {
          accounts: null,
          err: 'SignatureFailure',
          fee: null,
          innerInstructions: null,
          loadedAccountsDataSize: 0,
          loadedAddresses: null,
          logs: [],
          postBalances: null,
          postTokenBalances: null,
          preBalances: null,
          preTokenBalances: null,
          replacementBlockhash: null,
          returnData: null,
          unitsConsumed: 0,
        },
      })
      // Without preflight a validator answers, and drops it later.
      const skipped = await send(forged, { skipPreflight: true })
      expect(skipped.result).toBe(encodeBase58(forged.subarray(1, 65)))
      expect((await node.call('getSignatureStatuses', [skipped.result])).result.value).toEqual([
        null,
      ])
      const text = Buffer.from(forged).toString('base64')
      const config = { encoding: 'base64', sigVerify: true, innerInstructions: true }
      const simulated = await node.call('simulateTransaction', text, config)
      expect(simulated.result.value).toMatchObject({
        err: 'SignatureFailure',
        fee: null,
        innerInstructions: null,
        loadedAddresses: { writable: [], readonly: [] },
        logs: [],
        preBalances: null,
        postTokenBalances: null,
      })
      expect(await errorOf('simulateTransaction', text, { ...base64, sigVerify: false })).toEqual([
        undefined,
        undefined,
      ])
    })

    it('refuses bytes that cannot be read or sanitized with -32602', async () => {
      const from = await node.funded()
      const to = await node.funded()
      const bytes = await node.signed([transfer(from, to.publicKey, 1)], [from])
      const text = Buffer.from(bytes).toString('base64')
      const unsanitary = 'Transaction failed to sanitize accounts offsets correctly'
      const longer = Buffer.concat([bytes, Uint8Array.of(0)])
      expect((await send(longer)).error?.code).toBe(-32602)
      const miscounted = Uint8Array.from(bytes)
      miscounted[65] = 2
      for (const method of ['sendTransaction', 'simulateTransaction']) {
        const wrong = Buffer.from(miscounted).toString('base64')
        expect(await errorOf(method, wrong, base64)).toEqual([
          -32602,
          `invalid transaction: ${unsanitary}`,
        ])
        const lead = (version: number) =>
          Buffer.concat([bytes.subarray(0, 65), Uint8Array.of(version), bytes.subarray(65)])
        expect(await errorOf(method, lead(0xfe).toString('base64'), base64)).toEqual([
          -32602,
          'failed to deserialize solana_transaction::versioned::VersionedTransaction: ' +
            'invalid value: integer `126`, expected a valid transaction message version',
        ])
      }
      const limit = ComputeBudgetProgram.setComputeUnitLimit({ units: 1_000 })
      const twice = await node.signed([limit, limit], [from])
      expect((await send(twice, { skipPreflight: true })).error).toEqual({
        code: -32602,
        message:
          'invalid transaction: Transaction contains a duplicate instruction (1) ' +
          'that is not allowed',
      })
      expect(await errorOf('sendTransaction', '0'.repeat(1700))).toEqual([
        -32602,
        'base58 encoded solana_transaction::versioned::VersionedTransaction too large: 1700 bytes ' +
          '(max: encoded/raw 1683/1232)',
      ])
      expect(await errorOf('sendTransaction', text, { encoding: 'jsonParsed' })).toEqual([
        -32602,
        'unsupported encoding: jsonParsed. Supported encodings: base58, base64',
      ])
    })

    it('refuses every truncation and keeps running', async () => {
      const from = await node.funded()
      const signed = () => node.signed([transfer(from, from.publicKey, 1)], [from])
      const bytes = await signed()
      const batch = Array.from({ length: bytes.length }, (_, length) => length)
      for (const length of batch.filter((at) => at % 3 === 0)) {
        const text = bytes.subarray(0, length).toString('base64')
        const [code] = await errorOf('sendTransaction', text, base64)
        expect([length, code]).toEqual([length, -32602])
        const [simulated] = await errorOf('simulateTransaction', text, base64)
        expect(simulated).toBe(-32602)
      }
      expect((await node.call('getHealth')).result).toBe('ok')
      // On a slow machine the blockhash of the first one has expired.
      expect((await send(await signed())).error).toBeUndefined()
    })
  })

  describe('params', () => {
    const clock = 'SysvarC1ock11111111111111111111111111111111'

    it("are refused with a validator's messages", async () => {
      expect(await errorOf('getBalance')).toEqual([
        -32602,
        '`params` should have at least 1 argument(s)',
      ])
      expect(await errorOf('getBalance', clock, {}, 1)).toEqual([
        -32602,
        'Invalid parameters: Expected from 1 to 2 parameters.',
      ])
      expect(await errorOf('getBalance', 'x')).toEqual([-32602, 'Invalid param: WrongSize'])
      expect(await errorOf('getBalance', '0OIl')).toEqual([-32602, 'Invalid param: Invalid'])
      expect(await errorOf('getBalance', 7)).toEqual([
        -32602,
        'Invalid params: invalid type: integer `7`, expected a string.',
      ])
      expect(await errorOf('getGenesisHash', 1)).toEqual([
        -32602,
        'Invalid parameters: No parameters were expected',
      ])
      const size = 'getMinimumBalanceForRentExemption'
      expect(await errorOf(size, 0, { commitment: 'best' })).toEqual([
        -32602,
        'Invalid params: unknown variant `best`, ' +
          'expected one of `processed`, `confirmed`, `finalized`.',
      ])
      // Among other members an unknown commitment is none to a validator.
      const newest = (await node.call('getSlot', { commitment: 'best' })).result
      expect(newest).toBeLessThanOrEqual((await node.call('getSlot')).result)
      const { error } = await node.call('getSlot', { minContextSlot: 9_000_000 })
      expect(error).toMatchObject({
        code: -32016,
        message: 'Minimum context slot has not been reached',
        data: { contextSlot: expect.any(Number) },
      })
    })

    it('have the limits of a validator', async () => {
      const keys = new Array(101).fill(clock)
      expect(await errorOf('getMultipleAccounts', keys)).toEqual([
        -32602,
        'Too many inputs provided; max 100',
      ])
      const signature = '1'.repeat(64)
      expect(await errorOf('getSignatureStatuses', new Array(257).fill(signature))).toEqual([
        -32602,
        'Too many inputs provided; max 256',
      ])
      expect(await errorOf('getSignaturesForAddress', clock, { limit: 1001 })).toEqual([
        -32602,
        'Invalid limit; max 1000',
      ])
      expect(await errorOf('getBlocksWithLimit', 0, 500_001)).toEqual([
        -32602,
        'Limit too large; max 500000',
      ])
      expect(await errorOf('getSlotLeaders', 0, 5001)).toEqual([-32602, 'Invalid limit; max 5000'])
      expect(await errorOf('getRecentPerformanceSamples', 721)).toEqual([
        -32602,
        'Invalid limit; max 720',
      ])
      expect(
        await errorOf('getProgramAccounts', clock, { filters: new Array(5).fill({ dataSize: 1 }) }),
      ).toEqual([-32602, 'Too many filters provided; max 4'])
      expect(await errorOf('getTransaction', signature, { commitment: 'processed' })).toEqual([
        -32602,
        'Method does not support commitment below `confirmed`',
      ])
    })

    it('give blocks that are not there their own codes', async () => {
      expect(await errorOf('getBlock', 9_000_000)).toEqual([
        -32004,
        'Block not available for slot 9000000',
      ])
      expect(await errorOf('getHighestSnapshotSlot')).toEqual([-32008, 'No snapshot'])
      expect(await errorOf('getTokenAccountBalance', clock)).toEqual([
        -32602,
        'Invalid param: not a Token account',
      ])
      expect(await errorOf('getTokenAccountsByOwner', clock, { programId: clock })).toEqual([
        -32602,
        'Invalid param: unrecognized Token program id',
      ])
    })

    it('choose the encoding: base58 up to 128 bytes, zstd that decoders take', async () => {
      const program = 'TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA'
      const parsed = await node.call('getAccountInfo', program, { encoding: 'jsonParsed' })
      const token = parsed.result.value.data.parsed.info.programData
      expect(await errorOf('getAccountInfo', token)).toEqual([
        -32600,
        'Encoded binary (base 58) data should be less than 128 bytes, please use Base64 encoding.',
      ])
      const value = async (config: object) =>
        (await node.call('getAccountInfo', token, config)).result.value
      const whole = await value({ encoding: 'base64' })
      const squeezed = await value({ encoding: 'base64+zstd' })
      const bytes = Buffer.from(whole.data[0], 'base64')
      expect(bytes.length).toBe(whole.space)
      const unpacked = decompress(Buffer.from(squeezed.data[0], 'base64'))
      expect(Buffer.from(unpacked).equals(bytes)).toBe(true)
      const slice = await value({ encoding: 'base58', dataSlice: { offset: 0, length: 4 } })
      expect(slice.data).toEqual([encodeBase58(bytes.subarray(0, 4)), 'base58'])
      const behind = await value({ encoding: 'base64', dataSlice: { offset: 1e9, length: 4 } })
      expect(behind.data).toEqual(['', 'base64'])
    })
  })
}
