import { describe, expect, it } from 'vitest'
import type {
  MessageContent,
  TransactionConfigContent,
} from '../../../../src/chain/solana/geyser-decode.ts'
import { Keypair } from '../../../../src/chain/solana/keypair.ts'
import { programs } from '../../../../src/chain/solana/programs.ts'
import { RecentFees } from '../../../../src/chain/solana-rpc/recent-fees.ts'

const key = (value: number) => new Uint8Array(32).fill(value)
const payer = new Keypair(key(1)).publicKey
const nothingLoaded = { loadedReadonlyAddresses: [], loadedWritableAddresses: [] }

interface Asked {
  readonly price?: bigint
  readonly unitLimit?: number
  readonly writes?: readonly Uint8Array[]
  readonly config?: TransactionConfigContent
  readonly isEmpty?: boolean
}

function messageOf({ price, unitLimit, writes = [], config, isEmpty }: Asked): MessageContent {
  const accountKeys = [payer, ...writes, programs.computeBudget, key(99)]
  const budget = accountKeys.length - 2
  const instructions: MessageContent['instructions'][number][] = []
  const accounts = new Uint8Array(0)
  if (unitLimit !== undefined) {
    const data = Buffer.alloc(5, 2)
    data.writeUInt32LE(unitLimit, 1)
    instructions.push({ programIdIndex: budget, accounts, data })
  }
  if (price !== undefined) {
    const data = Buffer.alloc(9, 3)
    data.writeBigUInt64LE(price, 1)
    instructions.push({ programIdIndex: budget, accounts, data })
  }
  if (isEmpty !== true) instructions.push({ programIdIndex: budget + 1, accounts, data: accounts })
  return {
    numRequiredSignatures: 1,
    numReadonlySignedAccounts: 0,
    numReadonlyUnsignedAccounts: 2,
    accountKeys,
    recentBlockhash: key(7),
    instructions,
    versioned: config !== undefined,
    config: config ?? null,
    addressTableLookups: [],
  }
}

function close(recent: RecentFees, slot: number, ...transactions: Asked[]): void {
  for (const asked of transactions) recent.land(messageOf(asked), nothingLoaded)
  recent.close(slot)
}

describe('the fees of recent blocks', () => {
  it('count an instruction whose program is not among the keys as one of any program', () => {
    const rates = [0, 78].map((beyond) => {
      const message = messageOf({ price: 500n, isEmpty: true })
      const programIdIndex = message.accountKeys.length - 1 + beyond
      const called = { programIdIndex, accounts: new Uint8Array(0), data: new Uint8Array(0) }
      const recent = new RecentFees(true)
      const instructions = [...message.instructions, called]
      recent.land({ ...message, instructions }, nothingLoaded)
      recent.close(1)
      return recent.read([])[0]!.rate
    })
    expect(rates[1]).toBe(rates[0])
  })

  it('are the least that landed, or the most that one of the accounts took', () => {
    const recent = new RecentFees(false)
    const transactions = [
      { price: 500n, writes: [key(11), key(12)] },
      { price: 20n, writes: [key(11)] },
      { price: 90n, writes: [key(13)] },
    ]
    close(recent, 7, ...transactions)
    const rates = (...keys: Uint8Array[]) => recent.read(keys).map(({ slot, rate }) => [slot, rate])
    expect(rates()).toEqual([[7, 20]])
    expect(rates(key(11))).toEqual([[7, 20]])
    expect(rates(key(11), key(12))).toEqual([[7, 500]])
    expect(rates(key(13), key(14))).toEqual([[7, 90]])
    // A program that is read alone.
    expect(rates(key(99))).toEqual([[7, 20]])
  })

  it('list no block without a transaction that offers a rate', () => {
    const recent = new RecentFees(false)
    close(recent, 1)
    close(recent, 2, { price: 5n, unitLimit: 0 })
    close(recent, 3, { isEmpty: true })
    close(recent, 4, {})
    close(recent, 5, { price: 5n, unitLimit: 1 })
    close(recent, 6, { price: 2n ** 63n + 1n })
    expect(recent.read([])).toEqual([
      { slot: 4, rate: 0 },
      { slot: 5, rate: 5 },
      { slot: 6, rate: 2n ** 63n + 1n },
    ])
  })

  it('are computed since 4.1 from the whole lamports that were paid', () => {
    const [offered, paid] = [new RecentFees(false), new RecentFees(true)]
    const rateOf = (recent: RecentFees, asked: Asked) => {
      close(recent, 1, asked)
      const [block] = recent.read([])
      recent.clear()
      return block?.rate
    }
    const rates = (asked: Asked) => [rateOf(offered, asked), rateOf(paid, asked)]
    // 252,000 micro-lamports are a lamport: 1,000,000 micro-lamports for 6,000 units.
    expect(rates({ price: 42n, unitLimit: 6_000 })).toEqual([42, 166])
    expect(rates({ price: 0n, unitLimit: 6_000 })).toEqual([0, 0])
    expect(rates({ price: 2_000_000n, unitLimit: 123_456 })).toEqual([2_000_000, 2_000_000])
    // Without a limit: 3,000 units for the budget instruction, 200,000 for the other.
    expect(rates({ price: 1n })).toEqual([1, Math.floor(1_000_000 / 203_000)])
    // No more than 1,400,000 units count.
    expect(rates({ price: 1n, unitLimit: 4_000_000 })).toEqual([
      1,
      Math.floor(2_000_000 / 1_400_000),
    ])
    expect(rates({ price: 5n, unitLimit: 0 })).toEqual([undefined, undefined])
    const most = 2n ** 64n - 1n
    expect(rates({ price: most, unitLimit: 1_000_000 })).toEqual([most, most])
    // What a u64 cannot hold counts as 0.
    expect(rates({ price: most, unitLimit: 1 })).toEqual([most, 0])
  })

  it('of version 1 are the bid by its units', () => {
    const config = { loadedAccountsDataSizeLimit: null, heapSize: null }
    const recent = new RecentFees(true)
    const bid = (priorityFee: bigint | null, computeUnitLimit: number | null) => ({
      config: { ...config, priorityFee, computeUnitLimit },
    })
    close(recent, 1, bid(7n, 2))
    close(recent, 2, bid(1n, 2))
    close(recent, 3, bid(1n, 0))
    close(recent, 4, bid(7n, null))
    expect(recent.read([])).toEqual([
      { slot: 1, rate: 3_500_000 },
      { slot: 2, rate: 500_000 },
    ])
  })

  it('are those of 150 blocks', () => {
    const recent = new RecentFees(false)
    for (let slot = 1; slot <= 149; slot++) close(recent, slot, {})
    expect(recent.isFull).toBe(false)
    for (let slot = 150; slot <= 400; slot++) close(recent, slot, {})
    expect(recent.isFull).toBe(true)
    expect(recent.read([]).map(({ slot }) => slot)).toEqual(
      Array.from({ length: 150 }, (_, at) => 251 + at),
    )
    recent.clear()
    expect([recent.isFull, recent.read([])]).toEqual([false, []])
  })
})
