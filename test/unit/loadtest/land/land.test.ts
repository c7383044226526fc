import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { encodeBase58 } from '../../../../src/chain/solana/base58.ts'
import { Keypair } from '../../../../src/chain/solana/keypair.ts'
import { TransactionLayout } from '../../../../src/chain/solana/transaction.ts'
import { Verifier } from '../../../../src/chain/solana/verify.ts'
import { readKeypair, type Sent, signTransfer } from '../../../../src/loadtest/land/land.ts'
import { landSentences, scoreRoutes } from '../../../../src/loadtest/land/land-result.ts'
import { affordable, costOf, feeOf, routeOrder } from '../../../../src/loadtest/land/plan.ts'
import { SeededRandom } from '../../../../src/loadtest/statistics.ts'

const folder = mkdtempSync(join(tmpdir(), 'sluice-land-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))
const wallet = new Keypair(new Uint8Array(32).fill(3))

describe('the plan of a landing test', () => {
  test('gives each block of transactions every route once, in an order of the seed', () => {
    const order = routeOrder(300, 3, new SeededRandom(5))
    expect(order).toHaveLength(300)
    for (let at = 0; at < 300; at += 3)
      expect(new Set(order.slice(at, at + 3))).toEqual(new Set([0, 1, 2]))
    const firsts = order.filter((_, index) => index % 3 === 0)
    for (const route of [0, 1, 2])
      expect(firsts.filter((one) => one === route).length).toBeGreaterThan(15)
    expect(routeOrder(300, 3, new SeededRandom(5))).toEqual(order)
    expect(routeOrder(300, 3, new SeededRandom(6))).not.toEqual(order)
    expect(routeOrder(4, 3, new SeededRandom(5))).toHaveLength(4)
  })

  test('adds up tip, signature and priority fee', () => {
    expect(feeOf({ tipLamports: 7n, unitPrice: 0n })).toBe(5_000n)
    expect(feeOf({ tipLamports: 7n, unitPrice: 1n })).toBe(5_001n)
    expect(costOf({ tipLamports: 1_000_000n, unitPrice: 2_000_000n })).toBe(1_007_000n)
  })

  test('sends no more than the limit pays for when all of them land', () => {
    expect(affordable(200, 1_005_000n, null)).toBe(200)
    expect(affordable(200, 1_005_000n, 201_000_000n)).toBe(200)
    expect(affordable(200, 1_005_000n, 200_999_999n)).toBe(199)
    expect(affordable(200, 1_005_000n, 1_004_999n)).toBe(0)
  })
})

describe('the wallet of a landing test', () => {
  test('reads a keypair file of the Solana tools', () => {
    const path = join(folder, 'id.json')
    writeFileSync(path, JSON.stringify([...wallet.secretKey]))
    const read = readKeypair(path)
    expect(read.ok && encodeBase58(read.value.publicKey)).toBe(encodeBase58(wallet.publicKey))
  })

  test.each([
    ['cannot be read', null],
    ['is not a keypair file', '[1, 2, 3]'],
    ['is not a keypair file', JSON.stringify(new Array(64).fill(256))],
    ['is not a keypair file', 'secret'],
    ['is damaged', JSON.stringify([...wallet.secretKey].reverse())],
  ])('refuses a file that %s, without its content', (why, content) => {
    const path = join(folder, 'bad.json')
    rmSync(path, { force: true })
    if (content !== null) writeFileSync(path, content)
    const read = readKeypair(path)
    expect(!read.ok && read.refusal.message).toContain(`--keypair: ${path} ${why}`)
    if (content !== null && !read.ok) expect(read.refusal.message).not.toContain(content)
  })

  test('signs transfers that a validator accepts, each different', () => {
    const parts = { wallet, blockhash: new Uint8Array(32).fill(9), unitPrice: 0n }
    const tip = { tipAccount: new Uint8Array(32).fill(4), tipLamports: 1_000_000n }
    const first = signTransfer({ ...parts, ...tip, number: 1 })
    const second = signTransfer({ ...parts, ...tip, number: 2 })
    const layout = new TransactionLayout()
    expect(layout.decode(first)).toBe('ok')
    expect(layout.instructionCount).toBe(2)
    expect(new Verifier().verify(first)).toBe(true)
    expect(Buffer.compare(first.subarray(1, 65), second.subarray(1, 65))).not.toBe(0)
    layout.decode(signTransfer({ ...parts, ...tip, unitPrice: 5n, number: 1 }))
    expect(layout.instructionCount).toBe(4)
    layout.decode(signTransfer({ ...parts, tipAccount: null, tipLamports: 0n, number: 1 }))
    expect(layout.instructionCount).toBe(1)
  })
})

describe('the score of a landing test', () => {
  const sentOn = (
    route: number,
    landedAfter: number | null,
    refusal: string | null = null,
  ): Sent => ({
    route,
    sentMs: 0,
    slot: 100,
    refusal,
    answerMs: 4,
    landedSlot: landedAfter === null ? null : 100 + landedAfter,
    landedMs: landedAfter === null ? null : landedAfter * 400,
  })

  test('has shares with intervals, slots to land and cost of each route', () => {
    const sent = [
      ...Array.from({ length: 90 }, (_, index) => sentOn(0, index < 80 ? 1 : 3)),
      ...Array.from({ length: 10 }, () => sentOn(0, null)),
      ...Array.from({ length: 30 }, () => sentOn(1, 2)),
      ...Array.from({ length: 70 }, (_, index) => sentOn(1, null, index < 5 ? 'HTTP 429' : null)),
    ]
    const routes = scoreRoutes({ sent, cost: 1_005_000n }, ['fast', 'slow'])
    expect(routes[0]).toMatchObject({ sent: 100, landed: 90, share: 0.9, refusals: {} })
    expect(routes[0]!.interval.low).toBeCloseTo(0.8256, 3)
    expect(routes[0]!.interval.high).toBeCloseTo(0.9448, 3)
    expect(routes[0]!.slots).toMatchObject({ p50: 1, p90: 3 })
    expect(routes[0]!.spentLamports).toBe(90_450_000n)
    expect(routes[1]).toMatchObject({ landed: 30, share: 0.3, refusals: { 'HTTP 429': 5 } })
    expect(landSentences(routes)).toEqual([
      'fast landed 90 of 100: 90 %, 95 % 82.6 % to 94.5 %; clearly better than slow',
      'slow landed 30 of 100: 30 %, 95 % 21.9 % to 39.6 %; refused HTTP 429: 5',
      'spent 120,600,000 lamports',
    ])
  })
})
