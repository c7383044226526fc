// What an unmodified yellowstone client does with an endpoint: every method, every kind of
// filter. The same flow runs against a devnode and against the gateway.
import { createRequire } from 'node:module'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { encodeBase58 } from '../../src/chain/solana/base58.ts'
import type { SolanaUpdate } from '../../src/chain/solana/updates.ts'
import { SyntheticSolana } from './synthetic-solana.ts'
import { until } from './until.ts'

// biome-ignore-start lint/suspicious/noExplicitAny: the client's generated types add nothing here.
const Yellowstone = createRequire(import.meta.url)('@triton-one/yellowstone-grpc').default as any

/** An endpoint with a chain. */
export interface FlowStage {
  readonly target: string
  readonly token: string
  /** Publishes this on the chain; resolves when the endpoint has it. */
  publish(updates: readonly SolanaUpdate[]): Promise<void>
  close(): Promise<void>
}

const nothing = {
  accounts: {},
  slots: {},
  transactions: {},
  transactionsStatus: {},
  blocks: {},
  blocksMeta: {},
  entry: {},
  accountsDataSlice: [],
}
const keys = { accountInclude: [], accountExclude: [], accountRequired: [] }

export function yellowstoneFlow(open: () => Promise<FlowStage>): void {
  let stage: FlowStage
  let client: any

  beforeEach(async () => {
    stage = await open()
    client = new Yellowstone(`http://${stage.target}`, stage.token, {})
  })

  afterEach(() => stage.close())

  async function subscribe(request: object): Promise<{ stream: any; seen: any[] }> {
    const stream = await client.subscribe()
    const seen: any[] = []
    stream.on('data', (update: any) => seen.push(update))
    stream.on('error', () => {})
    stream.write({ ...nothing, ...request })
    stream.write({ ...nothing, ping: { id: 5 } })
    await until(() => seen.some(({ pong }) => pong?.id === 5), 'a pong')
    return { stream, seen }
  }

  it('is refused with PermissionDenied without a valid token, unary and stream', async () => {
    for (const token of ['wrong', undefined]) {
      const refused = new Yellowstone(`http://${stage.target}`, token, {})
      await expect(refused.getVersion()).rejects.toMatchObject({ code: 7 })
      const stream = await refused.subscribe()
      let code = 0
      stream.on('error', (error: { code: number }) => {
        code = error.code
      })
      stream.resume()
      await until(() => code !== 0, 'an error')
      expect(code).toBe(7)
    }
  })

  it('calls every unary method', async () => {
    const chain = new SyntheticSolana()
    for (let slot = 0; slot < 6; slot++) await stage.publish(chain.next())
    const { version } = JSON.parse(await client.getVersion())
    expect(version).toMatchObject({ package: 'sluice', solana: '4.0.0' })
    expect(await client.ping(3)).toBe(3)
    expect(await client.getSlot()).toBe('1005')
    expect(await client.getSlot(2)).toBe('1001')
    expect(await client.getBlockHeight(1)).toBe('4')
    const latest = await client.getLatestBlockhash(0)
    expect(latest).toMatchObject({ slot: '1005', lastValidBlockHeight: '155' })
    expect(await client.isBlockhashValid(latest.blockhash, 0)).toEqual({
      slot: '1005',
      valid: true,
    })
    expect(await client.isBlockhashValid(latest.blockhash, 2)).toMatchObject({ valid: false })
  })

  it('receives every kind of update', async () => {
    const chain = new SyntheticSolana()
    const { stream, seen } = await subscribe({
      accounts: { a: { account: [], owner: [], filters: [{ lamports: { lt: '3000000' } }] } },
      slots: { s: { filterByCommitment: true } },
      transactions: { t: { ...keys, vote: false, failed: false } },
      transactionsStatus: { u: { ...keys, accountInclude: [encodeBase58(chain.keys[0]!)] } },
      blocks: { b: { accountInclude: [], includeAccounts: true, includeEntries: true } },
      blocksMeta: { m: {} },
      entry: { e: {} },
      accountsDataSlice: [{ offset: '0', length: '4' }],
      commitment: 1,
    })
    for (let slot = 0; slot < 8; slot++) await stage.publish(chain.next())
    await until(() => seen.filter(({ blockMeta }) => blockMeta).length === 7, 'seven metas')
    const fields = ['account', 'slot', 'transaction', 'transactionStatus', 'block', 'entry']
    for (const field of fields)
      expect(seen.filter((update) => update[field] !== undefined).length).toBeGreaterThan(0)
    const { account } = seen.find((update) => update.account)
    expect(account.account.rentEpoch).toBe('18446744073709551615')
    expect(account.account.data.length).toBeLessThanOrEqual(4)
    const { block, createdAt } = seen.find((update) => update.block)
    expect(block.transactions).toHaveLength(6)
    expect(createdAt).toBeInstanceOf(Date)
    expect(seen.filter(({ slot }) => slot).every(({ slot }) => slot.status === 1)).toBe(true)
    stream.cancel()
  })

  it('replays from a slot', async () => {
    const chain = new SyntheticSolana()
    for (let slot = 0; slot < 6; slot++) await stage.publish(chain.next())
    const { stream, seen } = await subscribe({ blocksMeta: { m: {} }, fromSlot: '1002' })
    await stage.publish(chain.next())
    await until(() => seen.filter(({ blockMeta }) => blockMeta).length === 5, 'five metas')
    const slots = seen.filter(({ blockMeta }) => blockMeta).map(({ blockMeta }) => blockMeta.slot)
    expect(slots).toEqual(['1002', '1003', '1004', '1005', '1006'])
    stream.cancel()
  })
}
// biome-ignore-end lint/suspicious/noExplicitAny: see above.
