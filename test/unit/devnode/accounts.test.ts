// Accounts at three commitments, against a slow and obvious model.
import { describe, expect, it } from 'vitest'
import { keyOf } from '../../../src/chain/solana/base58.ts'
import { programs } from '../../../src/chain/solana/programs.ts'
import { Accounts } from '../../../src/devnode/ledger/accounts.ts'
import type { LedgerAccount } from '../../../src/devnode/ledger/ledger.ts'
import { randomOf } from '../../testkit/synthetic-solana.ts'

const key = (value: number) => new Uint8Array(32).fill(value)
const owners = [programs.system, programs.token, key(200)]

function tokenData(mint: number, owner: number, delegate: number): Uint8Array {
  const data = new Uint8Array(165)
  data.set(key(mint), 0)
  data.set(key(owner), 32)
  data[108] = 1
  if (delegate > 0) {
    data[72] = 1
    data.set(key(delegate), 76)
  }
  return data
}

describe('the accounts of the ledger', () => {
  it('show each view what a replay up to its slot would show, and index it', () => {
    const random = randomOf(5)
    const below = (limit: number) => Math.floor(random() * limit)
    const accounts = new Accounts()
    const writes: LedgerAccount[] = []
    let finalized = 0
    for (let slot = 1; slot <= 120; slot++) {
      for (let count = below(8); count > 0; count--) {
        const owner = owners[below(3)]!
        const isToken = owner === programs.token
        const account: LedgerAccount = {
          pubkey: key(1 + below(12)),
          lamports: BigInt(below(4)) * 10n,
          owner,
          executable: false,
          rentEpoch: 0n,
          data: isToken
            ? tokenData(1 + below(3), 1 + below(3), below(3))
            : new Uint8Array(below(9)),
          slot,
          writeVersion: BigInt(writes.length),
        }
        writes.push(account)
        accounts.write(account)
      }
      if (slot > 8) accounts.finalize(++finalized)
      for (const view of [slot, slot - 1, finalized]) expectView(accounts, writes, view)
    }
    accounts.settle(120)
    expectView(accounts, writes, 120)
  })
})

function expectView(accounts: Accounts, writes: readonly LedgerAccount[], slot: number): void {
  const model = new Map<string, LedgerAccount>()
  for (const account of writes) {
    if (account.slot > slot) continue
    if (account.lamports === 0n) model.delete(keyOf(account.pubkey))
    else model.set(keyOf(account.pubkey), account)
  }
  const alive = [...model.values()]
  const versions = (found: Iterable<LedgerAccount>) =>
    [...found].map((account) => account.writeVersion).sort((a, b) => Number(a - b))
  expect(versions(accounts.all(slot))).toEqual(versions(alive))
  for (const account of alive) expect(accounts.read(account.pubkey, slot)).toBe(account)
  for (const owner of owners)
    expect(versions(accounts.indexed('program', owner, slot))).toEqual(
      versions(alive.filter((account) => keyOf(account.owner) === keyOf(owner))),
    )
  const at = { mint: 0, owner: 32, delegate: 76 } as const
  for (const kind of ['mint', 'owner', 'delegate'] as const)
    for (const value of [1, 2, 3])
      expect(versions(accounts.indexed(kind, key(value), slot))).toEqual(
        versions(
          alive.filter(({ owner, data }) => owner === programs.token && data[at[kind]] === value),
        ),
      )
}
