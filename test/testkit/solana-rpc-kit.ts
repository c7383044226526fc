// Unmodified @solana/kit; run against a chain of our own and through the proxy.
import {
  address,
  appendTransactionMessageInstruction,
  createDefaultRpcTransport,
  createSolanaRpcFromTransport,
  createTransactionMessage,
  generateKeyPairSigner,
  getBase64EncodedWireTransaction,
  getSignatureFromTransaction,
  isSolanaError,
  lamports,
  pipe,
  type Rpc,
  type Signature,
  SOLANA_ERROR__JSON_RPC__SERVER_ERROR_SEND_TRANSACTION_PREFLIGHT_FAILURE,
  type SolanaRpcApi,
  setTransactionMessageFeePayerSigner,
  setTransactionMessageLifetimeUsingBlockhash,
  signTransactionMessageWithSigners,
  type TransactionSigner,
} from '@solana/kit'
import { getTransferSolInstruction } from '@solana-program/system'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { SolanaNode } from './solana-node.ts'
import { until } from './until.ts'

/** A client of the node: the header is the only difference to kit's own way. */
export function kitOf({ url, token }: SolanaNode): Rpc<SolanaRpcApi> {
  const transport = createDefaultRpcTransport({ url, headers: { 'x-token': token } })
  return createSolanaRpcFromTransport(transport) as Rpc<SolanaRpcApi>
}

/** `start` opens the server that is asked; it is disposed of at the end. */
export function describeKit(start: () => Promise<SolanaNode>): void {
  let node: SolanaNode
  let rpc: Rpc<SolanaRpcApi>
  beforeAll(async () => {
    node = await start()
    rpc = kitOf(node)
  })
  afterAll(() => node?.dispose())

  async function funded() {
    const signer = await generateKeyPairSigner()
    await rpc.requestAirdrop(signer.address, lamports(10_000_000_000n)).send()
    return signer
  }

  async function signedTransfer(source: TransactionSigner, destination: string, amount: bigint) {
    const { value } = await rpc.getLatestBlockhash({ commitment: 'processed' }).send()
    const message = pipe(
      createTransactionMessage({ version: 0 }),
      (draft) => setTransactionMessageFeePayerSigner(source, draft),
      (draft) => setTransactionMessageLifetimeUsingBlockhash(value, draft),
      (draft) =>
        appendTransactionMessageInstruction(
          getTransferSolInstruction({ source, destination: address(destination), amount }),
          draft,
        ),
    )
    return signTransactionMessageWithSigners(message)
  }

  function send(wire: ReturnType<typeof getBase64EncodedWireTransaction>): Promise<Signature> {
    return rpc
      .sendTransaction(wire, { encoding: 'base64', preflightCommitment: 'processed' })
      .send()
  }

  describe('kit', () => {
    it('airdrops, transfers, and reads statuses, transactions and accounts', async () => {
      const from = await funded()
      const to = await generateKeyPairSigner()
      const transaction = await signedTransfer(from, to.address, 5_000_000n)
      const signature = await send(getBase64EncodedWireTransaction(transaction))
      expect(signature).toBe(getSignatureFromTransaction(transaction))
      const balance = await rpc.getBalance(to.address, { commitment: 'processed' }).send()
      expect(balance.value).toBe(5_000_000n)
      await until(async () => {
        const { value } = await rpc.getSignatureStatuses([signature]).send()
        return ['confirmed', 'finalized'].includes(value[0]?.confirmationStatus ?? '')
      }, 'confirmed')
      const landed = await rpc
        .getTransaction(signature, {
          commitment: 'confirmed',
          encoding: 'jsonParsed',
          maxSupportedTransactionVersion: 0,
        })
        .send()
      expect(landed?.meta?.fee).toBe(5000n)
      expect(landed?.version).toBe(0)
      const account = await rpc
        .getAccountInfo(to.address, { commitment: 'processed', encoding: 'base64' })
        .send()
      expect(account.value).toMatchObject({
        lamports: 5_000_000n,
        space: 0n,
        executable: false,
        rentEpoch: 18446744073709551615n,
      })
      const simulated = await rpc
        .simulateTransaction(
          getBase64EncodedWireTransaction(await signedTransfer(from, to.address, 1n)),
          { encoding: 'base64', sigVerify: true, commitment: 'processed', innerInstructions: true },
        )
        .send()
      expect(simulated.value).toMatchObject({
        err: null,
        unitsConsumed: 150n,
        innerInstructions: [],
      })
    })

    it('shows accounts in every encoding', async () => {
      const clock = address('SysvarC1ock11111111111111111111111111111111')
      const parsed = await rpc.getAccountInfo(clock, { encoding: 'jsonParsed' }).send()
      expect(parsed.value?.data).toMatchObject({ parsed: { type: 'clock' }, program: 'sysvar' })
      const zstd = await rpc.getAccountInfo(clock, { encoding: 'base64+zstd' }).send()
      const plain = await rpc.getAccountInfo(clock, { encoding: 'base58' }).send()
      expect([zstd.value?.data[1], plain.value?.data[1]]).toEqual(['base64+zstd', 'base58'])
      const missing = (await generateKeyPairSigner()).address
      const many = await rpc.getMultipleAccounts([clock, missing], { encoding: 'base64' }).send()
      expect(many.value.map((one) => one === null)).toEqual([false, true])
    })

    it('gives a failed preflight the error that kit knows by its code', async () => {
      const from = await funded()
      const to = await funded()
      const wire = getBase64EncodedWireTransaction(
        await signedTransfer(from, to.address, 1_000_000_000_000n),
      )
      const error = await send(wire).then(
        () => null,
        (thrown: unknown) => thrown,
      )
      const isPreflight = isSolanaError(
        error,
        SOLANA_ERROR__JSON_RPC__SERVER_ERROR_SEND_TRANSACTION_PREFLIGHT_FAILURE,
      )
      expect(isPreflight).toBe(true)
      if (!isPreflight) return
      expect(error.context.unitsConsumed).toBe(150n)
      expect(error.context.logs?.at(-1)).toContain('failed: custom program error: 0x1')
    })

    it('reads blocks at confirmed and finalized, and the numbers of the cluster', async () => {
      // Kit asks for confirmed by default.
      const finalized = { commitment: 'finalized' } as const
      await until(async () => (await rpc.getSlot(finalized).send()) > 2n, 'a finalized slot')
      for (const commitment of ['confirmed', 'finalized'] as const) {
        const slot = await rpc.getSlot({ commitment }).send()
        const block = await rpc
          .getBlock(slot, { commitment, maxSupportedTransactionVersion: 0, encoding: 'base64' })
          .send()
        expect(block?.parentSlot).toBe(slot - 1n)
        expect(block?.blockHeight).toBe(slot)
      }
      const slots = await rpc.getBlocks(1n, 2n).send()
      expect(slots).toEqual([1n, 2n])
      const info = await rpc.getEpochInfo({ commitment: 'processed' }).send()
      expect(info.absoluteSlot).toBeGreaterThan(0n)
      const supply = await rpc.getSupply({ excludeNonCirculatingAccountsList: true }).send()
      expect(supply.value.nonCirculating).toBe(0n)
      const { identity } = await rpc.getIdentity().send()
      const { result } = await node.call('getLeaderSchedule')
      expect(result[identity]).toHaveLength(432_000)
      const others = (await generateKeyPairSigner()).address
      expect(await rpc.getLeaderSchedule(null, { identity: others }).send()).toEqual({})
      const production = await rpc.getBlockProduction().send()
      expect(Object.keys(production.value.byIdentity)).toEqual([identity])
      expect(await rpc.getHighestSnapshotSlot().send().catch(String)).toContain('snapshot')
    })
  })
}
