import { expect, it } from 'vitest'
import { Commitment } from '../../../../src/base/commitment.ts'
import { decodeKey, isSameKey } from '../../../../src/chain/solana/base58.ts'
import { programs, sysvars } from '../../../../src/chain/solana/programs.ts'
import type { Ledger, LedgerAccount } from '../../../../src/devnode/ledger/ledger.ts'
import { nonCirculating } from '../../../../src/devnode/rpc/accounts.ts'

const now = { epoch: 5n, time: 1_000n }

function stake(
  id: number,
  lockup: { time?: bigint; epoch?: bigint; tag?: number; withdrawer?: Uint8Array },
) {
  const data = Buffer.alloc(200)
  data.writeUInt32LE(lockup.tag ?? 2, 0)
  data.set(lockup.withdrawer ?? new Uint8Array(32), 44)
  data.writeBigInt64LE(lockup.time ?? 0n, 76)
  data.writeBigUInt64LE(lockup.epoch ?? 0n, 84)
  return { pubkey: new Uint8Array(32).fill(id), lamports: BigInt(id), owner: programs.stake, data }
}

it('counts stakes that are locked up or that a custodian of mainnet withdraws', () => {
  const clock = Buffer.alloc(40)
  clock.writeBigUInt64LE(now.epoch, 16)
  clock.writeBigInt64LE(now.time, 32)
  const custodian = decodeKey('8CUUMKYNGxdgYio5CLHRHyzMEhhVRMcqefgE6dLqnVRK')!
  const stakes = [
    stake(1, {}),
    stake(2, { time: now.time }),
    stake(4, { epoch: now.epoch }),
    stake(8, { time: now.time + 1n }),
    stake(16, { epoch: now.epoch + 1n, tag: 1 }),
    stake(32, { epoch: now.epoch + 1n, tag: 3 }),
    stake(64, { withdrawer: custodian }),
    { ...stake(128, {}), data: new Uint8Array(4) },
  ]
  const accounts = [...stakes, { pubkey: sysvars.clock, lamports: 1n, data: clock }]
  // Reason for the cast: only these reads are made.
  const ledger = {
    accountsByOwner: () => stakes,
    account: (key: Uint8Array) =>
      (accounts.find(({ pubkey }) => isSameKey(pubkey, key)) ?? null) as LedgerAccount | null,
  } as unknown as Ledger
  const { keys, lamports } = nonCirculating(ledger, Commitment.finalized)
  expect(lamports).toBe(8n + 16n + 64n)
  expect(keys.size).toBe(113)
})
