// JSON-RPC of the devnode where a validator's exact fields, texts and codes matter.
import { Keypair } from '@solana/web3.js'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { encodeBase58 } from '../../src/solana/base58.ts'
import { type Devnode, startDevnode } from '../testkit/devnode.ts'
import type { RpcAnswer } from '../testkit/solana-node.ts'
import { until } from '../testkit/until.ts'

let devnode: Devnode

beforeAll(async () => {
  devnode = await startDevnode()
})
afterAll(() => devnode?.dispose())

/** `params` is JSON text, so that a test chooses how numbers are written. */
async function call(method: string, params: string): Promise<RpcAnswer> {
  const response = await fetch(devnode.url('rpc'), {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: `{"jsonrpc":"2.0","id":1,"method":"${method}","params":${params}}`,
  })
  return (await response.json()) as RpcAnswer
}

describe('the supply', () => {
  it('lists the accounts that a validator never counts as circulating', async () => {
    const { value } = (await call('getSupply', '[{"commitment":"processed"}]')).result
    expect(value.nonCirculatingAccounts).toHaveLength(110)
    expect(value.nonCirculatingAccounts).toContain('9huDUZfxoJ7wGMTffUE7vh1xePqef7gyrLJu9NApncqA')
    const short = '[{"excludeNonCirculatingAccountsList":true}]'
    expect((await call('getSupply', short)).result.value.nonCirculatingAccounts).toEqual([])
    const locked = '[{"filter":"nonCirculating","commitment":"processed"}]'
    expect((await call('getLargestAccounts', locked)).result.value).toEqual([])
    await call('requestAirdrop', '["9huDUZfxoJ7wGMTffUE7vh1xePqef7gyrLJu9NApncqA",5000000000]')
    const after = (await call('getSupply', '[{"commitment":"processed"}]')).result.value
    expect(after.nonCirculating).toBe(5_000_000_000)
    expect(after.circulating).toBe(after.total - 5_000_000_000)
    expect((await call('getLargestAccounts', locked)).result.value).toEqual([
      { address: '9huDUZfxoJ7wGMTffUE7vh1xePqef7gyrLJu9NApncqA', lamports: 5_000_000_000 },
    ])
  })

  it('is told in SOL by GET /v0/total-supply and /v0/circulating-supply', async () => {
    for (const path of ['total-supply', 'circulating-supply']) {
      const response = await fetch(`${devnode.url('rpc')}/v0/${path}`)
      expect(response.status).toBe(200)
      expect(await response.text()).toMatch(/^\d+(\.\d{0,8}[1-9])?$/)
    }
  })
})

describe('the history', () => {
  const key = Keypair.generate().publicKey.toBase58()
  const confirmed = { commitment: 'confirmed' }
  const ask = (method: string, ...params: unknown[]) => call(method, JSON.stringify(params))

  it('numbers transactions inside their block', async () => {
    const airdrops = [1, 2, 3].map((lamports) => ask('requestAirdrop', key, 1e9 + lamports))
    for (const airdrop of airdrops) expect((await airdrop).error).toBeUndefined()
    const list = async () => (await ask('getSignaturesForAddress', key, confirmed)).result
    await until(async () => (await list()).length === 3, 'three transactions')
    for (const { signature, slot, transactionIndex } of await list()) {
      const block = await ask('getBlock', slot, { ...confirmed, transactionDetails: 'signatures' })
      expect(block.result.signatures[transactionIndex]).toBe(signature)
      const found = await ask('getTransaction', signature, confirmed)
      expect(found.result.transactionIndex).toBe(transactionIndex)
    }
  })

  it('refuses to page from a transaction that it does not have', async () => {
    const [{ signature: known }] = (await ask('getSignaturesForAddress', key, confirmed)).result
    const signature = encodeBase58(new Uint8Array(64).fill(9))
    const error = { code: -32020, message: `Transaction ${signature} not found` }
    const page = (range: object) => ask('getSignaturesForAddress', key, { ...confirmed, ...range })
    expect((await page({ before: signature })).error).toEqual(error)
    expect((await page({ until: signature })).error).toEqual(error)
    expect((await page({ before: known, until: signature })).error).toEqual(error)
    expect((await page({ before: known })).result).toHaveLength(2)
    expect((await page({ until: known })).result).toEqual([])
  })
})
