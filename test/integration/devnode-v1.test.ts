// Transactions of version 1 from an unmodified kit, through a devnode and a gateway.
import {
  address,
  appendTransactionMessageInstruction,
  createTransactionMessage,
  estimateAndSetResourceLimitsFactory,
  estimateResourceLimitsFactory,
  generateKeyPairSigner,
  getBase64Decoder,
  getBase64EncodedWireTransaction,
  lamports,
  pipe,
  setTransactionMessageConfig,
  setTransactionMessageFeePayerSigner,
  setTransactionMessageLifetimeUsingBlockhash,
  signTransactionMessageWithSigners,
} from '@solana/kit'
import { getTransferSolInstruction } from '@solana-program/system'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { devnodeAndGateway, type SolanaNode } from '../testkit/solana-node.ts'
import { kitOf } from '../testkit/solana-rpc-kit.ts'

const programAddress = address('MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr')
const base64 = { encoding: 'base64', preflightCommitment: 'processed' }

let node: SolanaNode

async function errorOf(bytes: Uint8Array): Promise<unknown> {
  const text = Buffer.from(bytes).toString('base64')
  const config = { ...base64, sigVerify: true }
  return (await node.call('simulateTransaction', text, config)).result.value.err
}

describe.each(devnodeAndGateway)('through %s', (_, start) => {
  beforeAll(async () => {
    node = await start()
  })
  afterAll(() => node?.dispose())

  describe('a transaction of version 1', () => {
    it('is estimated, sent, and read back by clients that know the version', async () => {
      const rpc = kitOf(node)
      const source = await generateKeyPairSigner()
      await rpc.requestAirdrop(source.address, lamports(10_000_000_000n)).send()
      const { address: destination } = await generateKeyPairSigner()
      const { value } = await rpc.getLatestBlockhash({ commitment: 'processed' }).send()
      const message = pipe(
        createTransactionMessage({ version: 1 }),
        (draft) => setTransactionMessageFeePayerSigner(source, draft),
        (draft) => setTransactionMessageLifetimeUsingBlockhash(value, draft),
        (draft) => setTransactionMessageConfig({ priorityFeeLamports: 777n }, draft),
        // Longer than the other versions may be.
        (draft) =>
          appendTransactionMessageInstruction(
            { programAddress, data: Buffer.alloc(600, 'long ') },
            draft,
          ),
        (draft) =>
          appendTransactionMessageInstruction(
            { programAddress, data: Buffer.alloc(700, 'memo ') },
            draft,
          ),
        (draft) =>
          appendTransactionMessageInstruction(
            getTransferSolInstruction({ source, destination, amount: 5_000_000n }),
            draft,
          ),
      )
      const estimate = estimateResourceLimitsFactory({ rpc })
      const limited = await estimateAndSetResourceLimitsFactory(estimate)(message)
      const signed = await signTransactionMessageWithSigners(limited)
      const wire = getBase64EncodedWireTransaction(signed)
      expect(wire.length).toBeGreaterThan(1_644)
      const fee = await rpc
        .getFeeForMessage(getBase64Decoder().decode(signed.messageBytes) as never, {
          commitment: 'processed',
        })
        .send()
      expect(fee.value).toBe(5_777n)
      const config = { encoding: 'base64', preflightCommitment: 'processed' } as const
      const signature = await rpc.sendTransaction(wire, config).send()
      await node.reached(signature, 'confirmed')
      // At once: later its blockhash has expired.
      expect(await errorOf(Buffer.from(wire, 'base64'))).toBe('AlreadyProcessed')
      const read = (more: object) =>
        node.call('getTransaction', signature, { commitment: 'confirmed', ...more })
      expect((await read({ maxSupportedTransactionVersion: 0 })).error).toMatchObject({
        code: -32015,
        message:
          'Transaction version (1) is not supported by the requesting client. Please try the ' +
          'request again with the following configuration parameter: ' +
          '"maxSupportedTransactionVersion": 1',
      })
      const { result } = await read({ maxSupportedTransactionVersion: 1 })
      expect(result).toMatchObject({ version: 1, meta: { err: null, fee: 5_777 } })
      expect(result.transaction.message.transactionConfig).toMatchObject({
        priorityFee: 777,
        loadedAccountsDataSizeLimit: expect.any(Number),
        heapSize: null,
      })
      const base = { maxSupportedTransactionVersion: 1, encoding: 'base64' }
      expect((await read(base)).result.transaction).toEqual([wire, 'base64'])
      const block = await node.call('getBlock', result.slot, { ...base, commitment: 'confirmed' })
      expect(block.result.transactions).toContainEqual(
        expect.objectContaining({ version: 1, transaction: [wire, 'base64'] }),
      )
      // The same bytes with a forged signature, and cut.
      const bytes = Buffer.from(wire, 'base64')
      bytes[bytes.length - 1]! ^= 1
      expect(await errorOf(bytes)).toBe('SignatureFailure')
      const cut = bytes.subarray(0, -1).toString('base64')
      expect((await node.call('sendTransaction', cut, base64)).error?.code).toBe(-32602)
    })
  })
})
