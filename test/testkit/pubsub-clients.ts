// The flows of unmodified web3.js and kit over PubSub, wherever the endpoint stands: the whole of what a
// customer does with it.
import { Keypair, PublicKey } from '@solana/web3.js'
import { beforeAll, describe, expect, it } from 'vitest'
import { encodeBase58 } from '../../src/chain/solana/base58.ts'
import { type SolanaNode, transfer } from './solana-node.ts'
import { createMint, mintBytes, tokenProgram } from './token-instructions.ts'
import { kitWithToken, web3WithToken } from './token-socket.ts'
import { until } from './until.ts'

/** A chain to send to, and the websocket endpoint that tells of it. */
export interface PubsubPlace {
  readonly node: SolanaNode
  readonly url: string
  readonly token: string
}

/** Declares the tests; `place` is asked when they run. */
export function describePubsubClients(place: () => PubsubPlace): void {
  describe('web3.js', () => {
    let node: SolanaNode
    let web3: typeof import('@solana/web3.js')
    let connection: import('@solana/web3.js').Connection
    beforeAll(() => {
      const { url, token, node: its } = place()
      node = its
      web3 = web3WithToken(token)
      connection = new web3.Connection(node.url, {
        commitment: 'processed',
        wsEndpoint: url,
        httpHeaders: { 'x-token': node.token },
      })
    })

    it('confirms a transfer by signatureSubscribe and is notified of account, program and logs', async () => {
      const from = await node.funded()
      const to = web3.Keypair.generate().publicKey
      const told: Record<string, unknown[]> = {
        account: [],
        program: [],
        logs: [],
        slot: [],
        root: [],
      }
      const ids = [
        connection.onAccountChange(
          to,
          (info, context) =>
            void told.account!.push([info.lamports, info.owner.toBase58(), context.slot > 0]),
        ),
        connection.onProgramAccountChange(
          web3.SystemProgram.programId,
          ({ accountId, accountInfo }) =>
            void told.program!.push([accountId.toBase58(), accountInfo.lamports]),
          { commitment: 'processed', filters: [{ dataSize: 0 }] },
        ),
        connection.onLogs(
          to,
          ({ signature, err, logs }) => void told.logs!.push([signature, err, logs.length > 0]),
        ),
        connection.onSlotChange(({ slot, root }) => void told.slot!.push(slot - root)),
        connection.onRootChange((root) => void told.root!.push(root)),
      ]
      expect(ids.length).toBe(5)
      await until(() => told.slot!.length > 0 && told.root!.length > 0, 'slots to be told')
      const { blockhash, lastValidBlockHeight } = await connection.getLatestBlockhash()
      const target = new PublicKey(to.toBase58())
      const signature = await node.land([transfer(from, target, 7_000_000)], [from])
      const confirmed = await connection.confirmTransaction(
        { signature, blockhash, lastValidBlockHeight },
        'confirmed',
      )
      expect(confirmed.value.err).toBeNull()
      await until(
        () => told.account!.length > 0 && told.logs!.length > 0,
        'the transfer to be told',
      )
      expect(told.account).toEqual([[7_000_000, '11111111111111111111111111111111', true]])
      expect(told.logs).toEqual([[signature, null, true]])
      await until(
        () => told.program!.some((one) => JSON.stringify(one) === `["${to.toBase58()}",7000000]`),
        'the account among those of its owner',
      )
      const again = await connection.confirmTransaction(
        { signature, blockhash, lastValidBlockHeight },
        'finalized',
      )
      expect(again.value.err).toBeNull()
      await connection.removeAccountChangeListener(ids[0]!)
      await connection.removeProgramAccountChangeListener(ids[1]!)
      await connection.removeOnLogsListener(ids[2]!)
      await connection.removeSlotChangeListener(ids[3]!)
      await connection.removeRootChangeListener(ids[4]!)
    })
  })

  describe('kit', () => {
    it('streams account, program, logs, slot and signature notifications', async () => {
      const { url, token, node } = place()
      const kit = await kitWithToken(token)
      const subscriptions = kit.createSolanaRpcSubscriptions(url)
      const from = await node.funded()
      const mint = Keypair.generate()
      const key = kit.address(mint.publicKey.toBase58())
      const abort = new AbortController()
      const options = { abortSignal: abort.signal }
      const accounts = kept(
        await subscriptions
          .accountNotifications(key, { commitment: 'processed', encoding: 'jsonParsed' })
          .subscribe(options),
      )
      const owned = kept(
        await subscriptions
          .programNotifications(kit.address(tokenProgram.toBase58()), {
            commitment: 'confirmed',
            encoding: 'base64',
            filters: [{ dataSize: BigInt(mintBytes) }],
          })
          .subscribe(options),
      )
      const logs = kept(
        await subscriptions
          .logsNotifications({ mentions: [key] }, { commitment: 'finalized' })
          .subscribe(options),
      )
      const slots = kept(await subscriptions.slotNotifications().subscribe(options))
      const rent = await node.connection.getMinimumBalanceForRentExemption(mintBytes)
      const bytes = await node.signed(createMint(from, mint, rent), [from, mint])
      const signature = encodeBase58(bytes.subarray(1, 65))
      // Before it is sent: of what comes with the answer in one read kit loses a part.
      const outcome = kept(
        await subscriptions
          .signatureNotifications(kit.signature(signature), {
            commitment: 'finalized',
            enableReceivedNotification: true,
          })
          .subscribe(options),
      )
      await node.connection.sendRawTransaction(bytes, { preflightCommitment: 'processed' })
      for (const [what, told] of Object.entries({ accounts, owned, logs, slots }))
        await until(() => told.length > 0, `${what} to be told`)
      await until(() => outcome.length === 2, 'the signature to be received and told')
      const { context, value } = accounts.at(-1)!
      expect(context.slot).toBeTypeOf('bigint')
      expect(value.data).toMatchObject({
        program: 'spl-token',
        parsed: { type: 'mint', info: { supply: '0' } },
      })
      expect(outcome.map((one) => one.value)).toEqual(['receivedSignature', { err: null }])
      expect(owned.map((one) => one.value.pubkey)).toContain(key)
      expect(logs[0]!.value).toMatchObject({ signature, err: null })
      expect(slots[0]!.slot).toBeGreaterThan(slots[0]!.root)
      abort.abort()
    })
  })
}

/** Reads on from the start: what arrives while nobody reads is lost in kit. */
function kept<T>(notices: AsyncIterable<T>): T[] {
  const list: T[] = []
  void (async () => {
    for await (const notice of notices) list.push(notice)
  })().catch(() => {})
  return list
}
