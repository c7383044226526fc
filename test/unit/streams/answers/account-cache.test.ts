import { describe, expect, it } from 'vitest'
import { sysvarOwner } from '../../../../src/chain/solana/programs.ts'
import { retractionUpdate } from '../../../../src/chain/solana/received-batch.ts'
import { slotStatus } from '../../../../src/chain/solana/updates.ts'
import { AccountCache } from '../../../../src/streams/answers/account-cache.ts'
import { publishUpdate } from '../../../../src/streams/geyser/hub.ts'
import { StreamChain, type Written } from '../../../testkit/stream-chain.ts'
import { randomOf } from '../../../testkit/synthetic-solana.ts'

const keyAt = (number: number) =>
  new Uint8Array(32)
    .fill(1)
    .fill(number % 256, 0, 1)
    .fill(number >> 8, 1, 2)
const one = keyAt(1)

interface NodeRead {
  readonly minSlot: number
  answer(slot: number, written: Partial<Written> | null | 'too large'): Promise<void>
}

function stage(bytesMax = 1_000_000) {
  const chain = new StreamChain()
  const reads: NodeRead[] = []
  const cache = new AccountCache(chain.hub, {
    bytesMax,
    read: (pubkey, minSlot) =>
      new Promise((resolve) => {
        reads.push({
          minSlot,
          async answer(slot, written) {
            if (written === 'too large') resolve(written)
            else {
              const {
                lamports = 0,
                owner = new Uint8Array(32),
                data = new Uint8Array(),
              } = written ?? {}
              const rest = { owner, data, executable: false, rentEpoch: 0n }
              const account = { pubkey, lamports: BigInt(lamports), ...rest }
              resolve({ slot, account: written === null ? null : account })
            }
            await Promise.resolve()
            await Promise.resolve()
          },
        })
      }),
  })
  /** Lamports at a slot; 'node' when the cache does not know. */
  const at = (slot: number, key = one) => {
    const account = cache.read(key, slot)
    return account === undefined ? 'node' : account === null ? null : Number(account.lamports)
  }
  const processed = (slot: number, key = one) => {
    const account = cache.readProcessed(key, slot)
    return account === undefined ? 'node' : account === null ? null : Number(account.lamports)
  }
  /** Asks twice, and answers the read that follows. */
  const keep = async (slot: number, written: Partial<Written> | null, key = one) => {
    at(slot, key)
    at(slot, key)
    await reads.at(-1)!.answer(slot, written)
  }
  return { chain, cache, reads, at, processed, keep }
}

const write = (lamports: number, more: Partial<Written> = {}) => ({
  writes: [{ pubkey: one, lamports, ...more }],
})

describe('AccountCache', () => {
  it('reads an account that is asked for again, at the newest confirmed slot or later', async () => {
    const { chain, reads, at } = stage()
    expect([at(0), at(0), reads.length]).toEqual(['node', 'node', 0])
    chain.grow(10, 12)
    expect([at(12), at(12), reads.length]).toEqual(['node', 'node', 1])
    expect(reads[0]!.minSlot).toBe(12)
    await reads[0]!.answer(14, { lamports: 5 })
    // The stream has to reach the slot of the read first.
    expect(at(12)).toBe('node')
    chain.grow(13, 14)
    expect([at(13), at(14), at(15), reads.length]).toEqual(['node', 5, 5, 1])
  })

  it('shows each slot its own state, until finalized has passed it', async () => {
    const { chain, at, keep } = stage()
    chain.grow(10, 12)
    await keep(12, { lamports: 5 })
    chain.grow(13, 13, write(6))
    chain.grow(14, 14)
    chain.grow(15, 15, write(7))
    chain.grow(16, 16, write(0))
    expect([12, 13, 14, 15, 16].map((slot) => at(slot))).toEqual([5, 6, 6, 7, null])
    chain.grow(17, 17, write(9))
    chain.reach(15, slotStatus.finalized)
    chain.grow(18, 18, write(9))
    expect([14, 15, 16, 17, 18].map((slot) => at(slot))).toEqual(['node', 7, null, 9, 9])
  })

  it('takes the last write of a slot, also one that comes late', async () => {
    const { chain, cache, at, keep } = stage()
    let changes = 0
    cache.onChange = () => changes++
    chain.grow(10, 12)
    await keep(12, { lamports: 5 })
    const writes = [6, 7].map((lamports) => ({ pubkey: one, lamports }))
    chain.grow(13, 14, { writes })
    expect([at(13), at(14), changes]).toEqual([7, 7, 0])
    chain.write(13, { pubkey: one, lamports: 8 })
    expect([at(13), at(14), changes]).toEqual([8, 7, 1])
    // Part of what the node read.
    chain.write(12, { pubkey: one, lamports: 9 })
    expect([at(12), at(13)]).toEqual([5, 8])
  })

  it('does not show writes of a block that is not confirmed', async () => {
    const { chain, at, keep } = stage()
    chain.grow(10, 12)
    await keep(12, { lamports: 5 })
    chain.block(13, write(6))
    expect(at(13)).toBe(5)
    chain.reach(13, slotStatus.dead)
    chain.block(14, { parent: 12, ...write(7) })
    chain.reach(14, slotStatus.confirmed)
    expect([at(13), at(14)]).toEqual([5, 7])
  })

  it('keeps what the stream writes during the read', async () => {
    const { chain, reads, at } = stage()
    chain.grow(10, 12)
    at(12)
    at(12)
    chain.grow(13, 13, write(6))
    chain.grow(14, 14, write(7))
    await reads[0]!.answer(13, { lamports: 6 })
    expect([at(12), at(13), at(14)]).toEqual(['node', 6, 7])
  })

  it('does not take a read that is older than what it missed', async () => {
    const { chain, reads, at } = stage()
    chain.grow(10, 12)
    at(12)
    at(12)
    await reads[0]!.answer(11, { lamports: 5 })
    // Retried, but not within the same slot.
    expect([at(12), reads.length]).toEqual(['node', 1])
    chain.grow(13, 13)
    expect([at(13), reads.length]).toEqual(['node', 2])
    await reads[1]!.answer(13, { lamports: 6 })
    expect(at(13)).toBe(6)
  })

  it.each([
    ['a slot is missing', (chain: StreamChain) => chain.grow(15, 15, write(7))],
    ['another block is the parent', (chain: StreamChain) => chain.grow(14, 14, { parentFork: 1 })],
    ['a block is incomplete', (chain: StreamChain) => chain.grow(14, 14, { isWhole: false })],
  ])('forgets everything when %s', async (_, break_) => {
    const { chain, cache, reads, at, keep } = stage()
    chain.grow(10, 13)
    await keep(13, { lamports: 5 })
    expect(at(13)).toBe(5)
    at(13, keyAt(2))
    at(13, keyAt(2))
    break_(chain)
    expect([cache.size, cache.bytes]).toEqual([0, 0])
    expect(at(15)).toBe('node')
    // A read from before the gap is no use.
    await reads[1]!.answer(15, { lamports: 1 })
    expect(at(15, keyAt(2))).toBe('node')
    chain.grow(16, 18)
    await keep(18, { lamports: 9 })
    expect(at(18)).toBe(9)
  })

  it('is bounded by bytes and evicts what was not read longest', async () => {
    const { chain, cache, at, keep } = stage(100_000)
    chain.grow(10, 12)
    for (let number = 0; number < 100; number++) {
      await keep(12, { lamports: number, data: new Uint8Array(4_000) }, keyAt(number))
      expect(cache.bytes).toBeLessThanOrEqual(100_000)
      at(12, keyAt(0))
    }
    expect([at(12, keyAt(0)), at(12, keyAt(99)), at(12, keyAt(1))]).toEqual([0, 99, 'node'])
    chain.grow(13, 60, {
      writes: [{ pubkey: keyAt(99), lamports: 7, data: new Uint8Array(9_000) }],
    })
    expect(cache.bytes).toBeLessThanOrEqual(100_000)
    const none = stage(0)
    none.chain.grow(10, 12)
    expect([none.at(12), none.at(12), none.cache.bytes, none.reads.length]).toEqual([
      'node',
      'node',
      0,
      0,
    ])
  })

  it('leaves large accounts and sysvars to the nodes, and does not read them again', async () => {
    const { chain, cache, reads, at, keep } = stage(100_000)
    chain.grow(10, 12)
    await keep(12, { lamports: 5, data: new Uint8Array(20_000) })
    await keep(12, { lamports: 5, owner: sysvarOwner }, keyAt(2))
    at(12, keyAt(3))
    at(12, keyAt(3))
    await reads.at(-1)!.answer(12, 'too large')
    chain.grow(13, 13)
    expect([1, 2, 3].map((number) => at(13, keyAt(number)))).toEqual(['node', 'node', 'node'])
    expect(reads.length).toBe(3)
    await keep(13, { lamports: 5 }, keyAt(4))
    const before = cache.bytes
    expect(at(13, keyAt(4))).toBe(5)
    chain.grow(14, 14, {
      writes: [{ pubkey: keyAt(4), lamports: 6, data: new Uint8Array(20_000) }],
    })
    expect([at(14, keyAt(4)), cache.bytes < before]).toEqual(['node', true])
  })
})

/** A write of the account. */
const to = (lamports: number) => ({ pubkey: one, lamports })

describe('accounts at processed', () => {
  it('have the writes of complete blocks above the confirmed one', async () => {
    const { chain, processed, keep, at } = stage()
    chain.grow(10, 12)
    await keep(12, { lamports: 5 })
    expect(processed(12)).toBe(5)
    chain.block(13, { writes: [to(6), to(7)] })
    expect(processed(13)).toBe(7)
    expect(at(12)).toBe(5)
    chain.block(14)
    expect(processed(14)).toBe(7)
    chain.block(15, { writes: [to(0)] })
    expect(processed(15)).toBeNull()
    // Of a slot that is not complete, a customer may have been notified.
    chain.write(16, to(9))
    expect(processed(15)).toBe('node')
    chain.block(16)
    expect(processed(16)).toBe(9)
    chain.reach(13, slotStatus.confirmed)
    chain.reach(14, slotStatus.confirmed)
    expect([processed(16), at(14)]).toEqual([9, 7])
    chain.reach(15, slotStatus.confirmed)
    expect([processed(16), at(15)]).toEqual([9, null])
    chain.reach(16, slotStatus.confirmed)
    expect([processed(16), at(16), at(15)]).toEqual([9, 9, null])
  })

  it('are left to a node while the blocks are not known as one line', async () => {
    const { chain, processed, keep } = stage()
    chain.grow(10, 12)
    await keep(12, { lamports: 5 })
    // A fork, and a slot that was given up: neither is an ancestor.
    chain.block(13, { writes: [to(6)] })
    chain.block(14, { parent: 12, writes: [to(7)] })
    expect(processed(14)).toBe(7)
    chain.write(15, to(8))
    chain.block(16, { parent: 14 })
    expect(processed(16)).toBe(7)
    // Without its block, of another parent, and with items of two connections.
    chain.block(17, { parent: 16, isWhole: false })
    expect(processed(17)).toBe('node')
    chain.block(18, { parent: 16, parentFork: 1 })
    expect(processed(18)).toBe('node')
    chain.block(19, { parent: 16, isMixed: true })
    expect(processed(19)).toBe('node')
    chain.block(20, { parent: 16 })
    expect(processed(20)).toBe(7)
    // A late write, and a block that replaces one.
    chain.write(20, to(9))
    expect(processed(20)).toBe('node')
    chain.block(21, { parent: 16 })
    chain.block(21, { parent: 16, fork: 1 })
    expect(processed(21)).toBe('node')
  })

  it('are left to a node in a slot whose bank was retracted, until it is confirmed', async () => {
    const { chain, processed, keep, at } = stage()
    chain.grow(10, 12)
    await keep(12, { lamports: 5 })
    // Begun, with a write that the next bank of the slot does not have.
    chain.write(13, to(99))
    const retracted = { bank: 1, reason: 'fork' as const, restated: [] }
    chain.hub.abandon(13)
    publishUpdate(chain.hub, retractionUpdate({ slot: 13, createdAtMs: 0 }, retracted))
    chain.block(13, { parent: 12, fork: 1 })
    chain.block(14, { parentFork: 1 })
    expect([processed(12), processed(13), processed(14)]).toEqual(['node', 'node', 'node'])
    chain.reach(13, slotStatus.confirmed)
    expect([at(13), processed(14)]).toEqual([5, 5])
  })

  it('are not shown before every write since the read was seen', async () => {
    const { chain, processed, keep } = stage()
    chain.grow(10, 12)
    chain.block(13, { writes: [to(6)] })
    await keep(12, { lamports: 5 })
    expect(processed(13)).toBe('node')
    chain.block(14)
    chain.reach(13, slotStatus.confirmed)
    expect(processed(14)).toBe(6)
  })

  it('are those that the chain of parents gives, or a node is asked', async () => {
    const random = randomOf(7)
    const below = (count: number) => Math.floor(random() * count)
    const { chain, processed, keep } = stage()
    const parents = new Map<number, number>()
    const written = new Map<number, number>()
    chain.grow(10, 12)
    await keep(12, { lamports: 1_000 })
    let confirmed = 12
    const pathOf = (slot: number): number[] =>
      slot <= confirmed ? [] : [...pathOf(parents.get(slot)!), slot]
    const isChild = (slot: number) => {
      let at = slot
      while (at > confirmed) at = parents.get(at)!
      return at === confirmed
    }
    const counts = { equal: 0, node: 0 }
    const check = (slot: number) => {
      const path = pathOf(slot)
      const last = path.findLast((at) => written.has(at)) ?? 0
      const expected = written.get(last) ?? state
      const found = processed(slot)
      if (found === 'node') counts.node++
      else {
        counts.equal++
        expect([slot, found]).toEqual([slot, expected])
      }
    }
    let state = 1_000
    for (let slot = 13; slot < 600; slot++) {
      const open = [...parents.keys()].filter((at) => at > confirmed && isChild(at))
      const parent =
        random() < 0.8
          ? Math.max(confirmed, ...open)
          : ([confirmed, ...open].at(below(open.length + 1)) ?? confirmed)
      parents.set(slot, parent)
      if (random() < 0.4) {
        written.set(slot, slot)
        chain.write(slot, to(slot))
      }
      for (const at of [confirmed, ...open]) check(at)
      chain.block(slot, { parent })
      for (const at of [confirmed, ...open, slot]) check(at)
      const path = pathOf(Math.max(...open, slot))
      if (path.length > below(6)) {
        confirmed = path[0]!
        state = written.get(confirmed) ?? state
        chain.reach(confirmed, slotStatus.confirmed)
      }
    }
    expect(counts.equal).toBeGreaterThan(500)
    expect(counts.node).toBeGreaterThan(100)
  })
})
