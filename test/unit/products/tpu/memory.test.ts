// State of the TPU Sender: duplicates for two minutes, rates by name, tip accounts in a file.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { decodeKey } from '../../../../src/chain/solana/base58.ts'
import { Rates } from '../../../../src/customers/quota/rates.ts'
import { tpuSection } from '../../../../src/products/tpu/config.ts'
import { Duplicates, digestOf, duplicateMs } from '../../../../src/products/tpu/handle.ts'
import { keptTipAccounts, TipAccounts } from '../../../../src/products/tpu/tip.ts'
import { newAddress } from '../../../testkit/tipped.ts'

describe('duplicates', () => {
  it('are recognized for two minutes and then dropped', () => {
    const duplicates = new Duplicates()
    const [one, two] = [digestOf(Uint8Array.of(1)), digestOf(Uint8Array.of(2))]
    duplicates.remember(one, 0)
    expect(duplicates.has(one, duplicateMs - 1)).toBe(true)
    expect(duplicates.has(one, duplicateMs)).toBe(false)
    expect(duplicates.has(two, 0)).toBe(false)
    duplicates.remember(two, duplicateMs)
    expect(duplicates.size).toBe(1)
  })
})

describe('rates', () => {
  it('give each name its burst, then its rate', () => {
    const rates = new Rates({ perSecond: 50, burst: 100 })
    const take = (name: string, count: number, nowMs: number) =>
      Array.from({ length: count }, () => rates.take(name, nowMs)).filter((wait) => wait === 0)
        .length
    expect(take('a', 150, 0)).toBe(100)
    expect(take('b', 1, 0)).toBe(1)
    expect(take('a', 100, 1_000)).toBe(50)
    expect(rates.take('a', 1_000)).toBeCloseTo(20)
  })

  it('drop names whose bucket is full again', () => {
    const rates = new Rates({ perSecond: 50, burst: 100 })
    for (let name = 0; name < 5_000; name++) rates.take(`n${name}`, name * 100)
    expect(rates.size).toBeLessThan(100)
  })
})

describe('tip accounts', () => {
  it('are generated once and stored', () => {
    const folder = mkdtempSync(join(tmpdir(), 'sluice-tips-'))
    try {
      const path = join(folder, 'tip-accounts.json')
      const made = keptTipAccounts(path)
      expect(made).toHaveLength(8)
      expect(made.every((text) => decodeKey(text) !== null)).toBe(true)
      expect(keptTipAccounts(path)).toEqual(made)
      expect(JSON.parse(readFileSync(path, 'utf8'))).toEqual({ tipAccounts: made })
      writeFileSync(path, '{"tipAccounts":["no"]}')
      expect(() => keptTipAccounts(path)).toThrow(/repair it or move it away/)
    } finally {
      rmSync(folder, { recursive: true, force: true })
    }
  })

  it('are replaced as a whole list', () => {
    const accounts = new TipAccounts([newAddress()])
    const next = [newAddress(), newAddress()]
    accounts.replace(next)
    expect(accounts.texts).toEqual(next)
    expect(accounts.find(decodeKey(next[1]!)!, 0)).toBe(1)
  })

  it('are 1 to 32 keys in the configuration, each once', () => {
    const { tipAccounts, upstreams } = tpuSection.fields
    const many = Array.from({ length: 33 }, newAddress)
    expect(tipAccounts.parse(many.slice(1)).ok).toBe(true)
    expect(tipAccounts.parse(many).ok).toBe(false)
    expect(tipAccounts.parse([many[0], many[0]]).ok).toBe(false)
    expect(tipAccounts.parse('abc').ok).toBe(false)
    expect(upstreams.parse('http://127.0.0.1:8899/?key=1').ok).toBe(true)
    expect(upstreams.parse('ftp://x').ok).toBe(false)
  })
})
