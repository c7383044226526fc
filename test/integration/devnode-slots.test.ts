// Slots and commitments as a validator reports them: the devnode itself and through the gateway.
import { AnchorProvider, Wallet } from '@coral-xyz/anchor'
import { AddressLookupTableProgram, Connection, Keypair, Transaction } from '@solana/web3.js'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startDevnode } from '../testkit/devnode.ts'
import { SolanaNode } from '../testkit/solana-node.ts'

let devnode: SolanaNode
beforeAll(async () => {
  devnode = await SolanaNode.of(await startDevnode({ slotMs: 200 }))
})
afterAll(() => devnode?.dispose())

describe.each([
  ['the devnode', async () => devnode.lent()],
  ['the gateway', () => SolanaNode.startWith('--chain.slotMs=200', '--chain.traffic=0')],
])('%s', (_, start) => {
  let node: SolanaNode
  beforeAll(async () => {
    node = await start()
  })
  afterAll(() => node?.dispose())

  it('names a processed slot whose block, time and hash can be read', async () => {
    const { connection } = node
    const slot = await connection.getSlot('processed')
    const block = await connection.getBlock(slot, {
      commitment: 'confirmed',
      maxSupportedTransactionVersion: 0,
    })
    expect(block?.parentSlot).toBe(Math.max(0, slot - 1))
    expect(await connection.getBlockTime(slot)).toBe(block?.blockTime)
    expect(await connection.getBlocks(slot, slot, 'confirmed')).toEqual([slot])
    const info = await connection.getEpochInfo('processed')
    expect(info.absoluteSlot).toBeGreaterThanOrEqual(slot)
    const { context, value } = await connection.getLatestBlockhashAndContext('processed')
    const newest = await connection.getBlock(context.slot, {
      commitment: 'confirmed',
      maxSupportedTransactionVersion: 0,
    })
    expect(newest?.blockhash).toBe(value.blockhash)
    const { result } = await node.call('getBlock', context.slot, { commitment: 'confirmed' })
    expect(value.lastValidBlockHeight).toBe(result.blockHeight + 150)
  })

  it('takes the slot of a processed read as minContextSlot of any processed read', async () => {
    const { connection } = node
    const { context } = await connection.getBalanceAndContext(
      Keypair.generate().publicKey,
      'processed',
    )
    for (const method of ['getSlot', 'getLatestBlockhash', 'getBlockHeight', 'getEpochInfo']) {
      const config = { commitment: 'processed', minContextSlot: context.slot }
      expect((await node.call(method, config)).error).toBeUndefined()
      const ahead = { ...config, minContextSlot: context.slot + 1_000 }
      expect((await node.call(method, ahead)).error?.code).toBe(-32016)
    }
  })
})

describe('Anchor, with its default commitment', () => {
  it('creates a lookup table with the newest slot', async () => {
    const wsEndpoint = devnode.server.url('websocket')
    const connection = new Connection(devnode.url, { wsEndpoint })
    const wallet = new Wallet(await devnode.funded())
    const options = AnchorProvider.defaultOptions()
    expect(options.commitment).toBe('processed')
    const provider = new AnchorProvider(connection, wallet, options)
    const recentSlot = await connection.getSlot(options.commitment)
    const [create, table] = AddressLookupTableProgram.createLookupTable({
      authority: wallet.publicKey,
      payer: wallet.publicKey,
      recentSlot,
    })
    await provider.sendAndConfirm(new Transaction().add(create))
    const { value } = await connection.getAddressLookupTable(table, { commitment: 'processed' })
    expect(value?.isActive()).toBe(true)
  })
})
