// The accounts of the background traffic: absent from a chain without traffic, added once it is on.
import { afterAll, expect, test } from 'vitest'
import { Commitment } from '../../src/base/commitment.ts'
import { encodeBase58 } from '../../src/chain/solana/base58.ts'
import { nativeMint, programs } from '../../src/chain/solana/programs.ts'
import { ChainStage } from '../testkit/chain-stage.ts'
import { until } from '../testkit/until.ts'

const stage = new ChainStage()
afterAll(() => stage.dispose())

function tokenAccounts(): string[] {
  const { ledger } = stage.chain
  return [...ledger.accountsByOwner(programs.token, Commitment.processed)].map(({ pubkey }) =>
    encodeBase58(pubkey),
  )
}

/** Lamports of all accounts beside the supply that the chain reports, at one instant. */
function totals(): { readonly held: bigint; readonly supply: bigint } {
  const { ledger } = stage.chain
  let held = 0n
  for (const { lamports } of ledger.accounts(Commitment.processed)) held += lamports
  return { held, supply: ledger.supply(Commitment.processed) }
}

test('a chain without traffic has no token accounts but the native mint', async () => {
  await stage.start()
  expect(tokenAccounts()).toEqual([encodeBase58(nativeMint)])
})

test('an existing chain gets the wallets when traffic is turned on, once', async () => {
  await stage.stop()
  Object.assign(stage.section, { traffic: 200 })
  for (const restarts of [1, 2]) {
    await stage.start()
    expect(tokenAccounts(), `start ${restarts}`).toHaveLength(34)
    const landed = stage.chain.ledger.transactionCount(Commitment.processed)
    await until(
      () => stage.chain.ledger.transactionCount(Commitment.processed) > landed + 20,
      'traffic',
    )
    const { held, supply } = totals()
    expect(held).toBe(supply)
    await stage.stop()
  }
})
