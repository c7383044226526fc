// Warm-up and cool-down of stake: at most 9 % of all active stake changes in one epoch.
import { expect, test } from 'vitest'
import {
  bootstrapEpoch,
  type Delegation,
  delegationOf,
  type StakeTotals,
  stakeAt,
  totalStake,
} from '../../../src/devnode/stakes.ts'

const never = 0xffff_ffff_ffff_ffffn
const voter = new Uint8Array(32).fill(1)
const delegation = (stake: bigint, from: bigint, until = never): Delegation => ({
  voter,
  stake,
  activationEpoch: from,
  deactivationEpoch: until,
})

/** Ends the epochs one by one, as the chain does. */
function historyOf(delegations: readonly Delegation[], epochs: bigint): Map<bigint, StakeTotals> {
  const history = new Map<bigint, StakeTotals>()
  for (let epoch = 0n; epoch < epochs; epoch++)
    history.set(epoch, totalStake(delegations.map(accountOf), epoch, history))
  return history
}

function accountOf({ stake, activationEpoch, deactivationEpoch }: Delegation) {
  const data = Buffer.alloc(200)
  data.writeUInt32LE(2, 0)
  data.set(voter, 124)
  data.writeBigUInt64LE(stake, 156)
  data.writeBigUInt64LE(activationEpoch, 164)
  data.writeBigUInt64LE(deactivationEpoch, 172)
  return { data }
}

test('stake of genesis is active at once', () => {
  expect(stakeAt(delegation(1_000n, bootstrapEpoch), 0n, new Map())).toEqual({
    effective: 1_000n,
    activating: 0n,
    deactivating: 0n,
  })
})

test('small stake is active in the epoch after its delegation, and free in the one after its end', () => {
  const all = [delegation(1_000_000n, bootstrapEpoch), delegation(50_000n, 1n, 4n)]
  const history = historyOf(all, 7n)
  const at = (epoch: bigint) => stakeAt(all[1]!, epoch, history)
  expect(at(0n)).toEqual({ effective: 0n, activating: 0n, deactivating: 0n })
  expect(at(1n)).toEqual({ effective: 0n, activating: 50_000n, deactivating: 0n })
  expect(at(2n)).toEqual({ effective: 50_000n, activating: 0n, deactivating: 0n })
  expect(at(4n)).toEqual({ effective: 50_000n, activating: 0n, deactivating: 50_000n })
  expect(at(5n)).toEqual({ effective: 0n, activating: 0n, deactivating: 0n })
  expect(history.get(3n)).toEqual({ effective: 1_050_000n, activating: 0n, deactivating: 0n })
})

test('large stake becomes active and inactive by 9 % of all active stake in an epoch', () => {
  const all = [delegation(1_000_000n, bootstrapEpoch), delegation(150_000n, 0n, 4n)]
  const history = historyOf(all, 8n)
  const effective = (epoch: bigint) => stakeAt(all[1]!, epoch, history).effective
  expect([0n, 1n, 2n, 3n, 4n].map(effective)).toEqual([0n, 90_000n, 150_000n, 150_000n, 150_000n])
  expect([5n, 6n].map(effective)).toEqual([150_000n - 103_500n, 0n])
})

test('stake that ended in the epoch of its delegation was never active', () => {
  const history = historyOf([delegation(1_000_000n, bootstrapEpoch)], 4n)
  expect(stakeAt(delegation(5n, 1n, 1n), 2n, history).effective).toBe(0n)
})

test('only delegated accounts count', () => {
  expect(delegationOf(Buffer.alloc(200))).toBeNull()
  expect(delegationOf(Buffer.from([2, 0, 0, 0]))).toBeNull()
  const { stake, activationEpoch } = delegationOf(accountOf(delegation(7n, 3n)).data)!
  expect([stake, activationEpoch]).toEqual([7n, 3n])
  const others = new Uint8Array(32).fill(2)
  const accounts = [accountOf(delegation(7n, bootstrapEpoch))]
  expect(totalStake(accounts, 0n, new Map(), voter).effective).toBe(7n)
  expect(totalStake(accounts, 0n, new Map(), others).effective).toBe(0n)
})
