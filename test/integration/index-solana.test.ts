// From the Solana chain and the TPU Sender into the index: rows match what the endpoints return.
import { Keypair, Transaction, type TransactionInstruction } from '@solana/web3.js'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { decodeKey } from '../../src/chain/solana/base58.ts'
import { newestShapes } from '../../src/chain/solana/version.ts'
import { embeddedRpcMethods } from '../../src/devnode/rpc/methods.ts'
import { good } from '../testkit/chain-stage.ts'
import { byNumber, type ReadRow } from '../testkit/index-reader.ts'
import { IngestStage } from '../testkit/ingest-stage.ts'
import { blockOf, shownAs } from '../testkit/shown-block.ts'
import { newAddress, newPayer, sign, transfer } from '../testkit/tipped.ts'
import {
  createMint,
  createTokenAccount,
  mintBytes,
  mintTo,
  tokenAccountBytes,
  transferChecked,
  transferPlain,
} from '../testkit/token-instructions.ts'
import { TpuStage } from '../testkit/tpu-stage.ts'
import { until } from '../testkit/until.ts'

describe('the Solana chain in the index', () => {
  const tpu = new TpuStage()
  const stage = new IngestStage()
  beforeAll(async () => {
    await tpu.start()
    await stage.start(tpu.chain.hub)
    tpu.tpu.listen((row) => stage.feeds.tip(row))
  })
  afterAll(async () => {
    await stage.dispose()
    await tpu.dispose()
  })

  const chain = () => tpu.chain.chain

  async function airdrop(to: Uint8Array): Promise<void> {
    good(await chain().requestAirdrop(to, 100_000_000_000n))
  }

  async function land(instructions: TransactionInstruction[], signers: Keypair[]) {
    const transaction = new Transaction()
    transaction.recentBlockhash = chain().ledger.latestBlockhash(0).blockhash
    transaction.feePayer = signers[0]!.publicKey
    transaction.add(...instructions).sign(...signers)
    return good(await chain().submit(transaction.serialize(), { isVerified: false }))
  }

  /** Every slot up to now is confirmed, and in the index. */
  async function settled(): Promise<void> {
    const slot = chain().ledger.stateSlot(0)
    await tpu.chain.reached(slot, 1)
    await until(() => (stage.ingest.freshness().slot ?? 0) >= slot, `slot ${slot}`)
  }

  test('has the transfers of a real token', async () => {
    const owner = Keypair.generate()
    await airdrop(owner.publicKey.toBytes())
    const [mint, first, second] = [Keypair.generate(), Keypair.generate(), Keypair.generate()]
    const rent = (bytes: number) => Number(chain().ledger.rentExemptMinimum(bytes))
    const of = {
      mint: mint.publicKey,
      owner: owner.publicKey,
      lamports: rent(tokenAccountBytes),
    }
    await land(
      [
        ...createMint(owner, mint, rent(mintBytes)),
        ...createTokenAccount(owner, first, of),
        ...createTokenAccount(owner, second, of),
        mintTo(mint.publicKey, first.publicKey, owner.publicKey, 3_500_000n),
      ],
      [owner, mint, first, second],
    )
    const move = { source: first.publicKey, destination: second.publicKey, owner: owner.publicKey }
    const landed = await land(
      [
        transferChecked({ ...move, mint: mint.publicKey }, 1_250_000n),
        transferPlain(move, 250_000n),
      ],
      [owner],
    )
    // More than there is: it fails, and nothing moves.
    const failed = await land([transferPlain(move, 9_000_000n)], [owner])
    expect(failed.err).not.toBeNull()
    await settled()
    const rows = (await stage.rows('token_transfers')).filter(
      ({ mint: of }) => of === mint.publicKey.toBase58(),
    )
    const common = {
      slot: String(landed.slot),
      source: first.publicKey.toBase58(),
      destination: second.publicKey.toBase58(),
      authority: owner.publicKey.toBase58(),
      decimals: '6',
      inner_ix: '-1',
    }
    expect(rows.sort(byNumber('ix'))).toMatchObject([
      { ...common, ix: '0', amount: '1250000' },
      { ...common, ix: '1', amount: '250000' },
    ])
  })

  test('equals what getBlock returns for the same slots', async () => {
    const payer = await newPayer()
    await airdrop(decodeKey(payer.address)!)
    const from = chain().ledger.slot(0)
    for (let serial = 0n; serial < 60n; serial++) {
      // Every fifth one spends more than there is.
      const lamports = serial % 5n === 4n ? 10n ** 15n : 1_000_000n + serial
      const version = serial % 2n === 0n ? ('legacy' as const) : (0 as const)
      const instructions = [transfer({ from: payer, to: newAddress(), lamports })]
      const { blockhash } = chain().ledger.latestBlockhash(0)
      const bytes = await sign(payer, instructions, { blockhash, version })
      good(await chain().submit(bytes, { isVerified: false }))
    }
    await settled()
    const nowhere = { host: '127.0.0.1', rpc: 0, ws: 0, udp: 0, shredVersion: 1 }
    const { ledger } = chain()
    const cluster = {
      nodes: [{ identity: ledger.identity, contact: () => nowhere }],
      leaderOf: () => 0,
      isMigrated: () => false,
      genesisBlock: () => null,
    }
    const { getBlock } = embeddedRpcMethods({
      chain: chain(),
      ledger,
      cluster,
      shapes: newestShapes,
    })
    const to = chain().ledger.slot(1)
    const inRange = ({ slot }: ReadRow) => Number(slot) >= from && Number(slot) <= to
    const transactions = (await stage.rows('transactions')).filter(inRange)
    const instructions = (await stage.rows('instructions')).filter(inRange)
    const blocks = (await stage.rows('blocks')).filter(inRange)
    const updates = (await stage.rows('account_updates')).filter(inRange)
    let seen = 0
    for (let slot = from; slot <= to; slot++) {
      const config = { commitment: 'confirmed', maxSupportedTransactionVersion: 0, rewards: false }
      const params = [slot, config]
      const paramsText = JSON.stringify(params)
      const answer = await getBlock!({ method: 'getBlock', params, paramsText, id: '1' }, null)
      const block = blockOf(answer)
      const own = ({ slot: of }: ReadRow) => Number(of) === slot
      expect(blocks.filter(own)).toEqual([
        {
          slot: String(slot),
          parent_slot: String(block.parentSlot),
          blockhash: block.blockhash,
          height: String(block.blockHeight),
          block_time: String(block.blockTime),
          tx_count: String(block.transactions.length),
        },
      ])
      const shown = block.transactions.map((one, idx) => shownAs(one, { slot, idx, block }))
      seen += shown.length
      expect(transactions.filter(own).sort(byNumber('idx'))).toEqual(
        shown.map(({ transaction }) => transaction),
      )
      const order = (a: ReadRow, b: ReadRow) =>
        byNumber('idx')(a, b) || byNumber('ix')(a, b) || byNumber('inner_ix')(a, b)
      expect(instructions.filter(own).sort(order)).toEqual(
        shown.flatMap((one) => one.instructions).sort(order),
      )
      // Every write that the hub published of the slot, in its order.
      const published = tpu.chain.told.filter((one) => one.kind === 'account' && one.slot === slot)
      expect(updates.filter(own)).toHaveLength(published.length)
    }
    expect(seen).toBeGreaterThanOrEqual(60)
    expect(transactions.some(({ success }) => success === '0')).toBe(true)
    expect(transactions.some(({ version }) => version === '0')).toBe(true)
  })

  test('equals what the TPU Sender accepted', async () => {
    const payer = await newPayer()
    await airdrop(decodeKey(payer.address)!)
    const tipAccount = tpu.tpu.tipAccounts()[2]!
    for (let serial = 0n; serial < 12n; serial++) {
      const instructions = [
        transfer({ from: payer, to: newAddress(), lamports: 1_000_000n + serial }),
        transfer({ from: payer, to: tipAccount, lamports: 1_000_000n * (serial + 1n) }),
      ]
      const { blockhash } = chain().ledger.latestBlockhash(0)
      const { json } = await tpu.send(await sign(payer, instructions, { blockhash }))
      expect(json.result).toBeTypeOf('string')
    }
    await until(() => tpu.tpu.report(0).landed === 12, 'all tips land')
    await settled()
    await stage.settled()
    const last = tpu.tpu.report(100).last
    expect(last).toHaveLength(12)
    const expected = last.map((row) => ({
      received_at: String(row.receivedAtMs),
      signature: row.signature,
      fee_payer: payer.address,
      tip_account: tipAccount,
      lamports: row.lamports,
      outcome: 'landed',
      reason: '',
      landed_slot: String(row.landedSlot),
    }))
    const bySignature = (a: ReadRow, b: ReadRow) =>
      String(a.signature) < String(b.signature) ? -1 : 1
    const rows = await stage.rows('tips')
    expect(rows.sort(bySignature)).toEqual(expected.sort(bySignature))
    const landed = (await stage.rows('transactions')).filter(({ signature }) =>
      rows.some((row) => row.signature === signature),
    )
    expect(landed).toHaveLength(12)
  })

  test('has the queries that were reported', async () => {
    const fact = { subscription: 's', atMs: 1_700_000_000_123, queryId: 'q' }
    stage.feeds.usage({ ...fact, elapsedMs: 1.5, rows: 7, bytes: 99, code: 0 })
    await until(async () => (await stage.rows('usage')).length === 1, 'the row')
    expect(await stage.rows('usage')).toEqual([
      {
        subscription: 's',
        at: '1700000000123',
        query_id: 'q',
        elapsed_ms: 1.5,
        rows: '7',
        bytes: '99',
        code: '0',
      },
    ])
  })
})
