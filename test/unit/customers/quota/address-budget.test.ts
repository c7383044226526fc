// The budget of open endpoints: time and bytes per client address.
import { describe, expect, it } from 'vitest'
import { addressKey } from '../../../../src/base/cidr.ts'
import { AddressBudget } from '../../../../src/customers/quota/rates.ts'

const limits = { workMsPerSecond: 10, workMsBurst: 100, bytesPerSecond: 1_000, bytesBurst: 5_000 }

function budgetAt(start = 0) {
  let nowMs = start
  const clock = { nowMs: () => nowMs, monotonicMs: () => nowMs }
  const budget = new AddressBudget(limits, clock)
  const pass = (ms: number) => {
    nowMs += ms
  }
  return { budget, pass }
}

describe('an address budget', () => {
  it('admits the burst, then the rate, and returns how long to wait', () => {
    const { budget, pass } = budgetAt()
    const ten = { workMs: 10, bytes: 0 }
    const waits = Array.from({ length: 11 }, () => budget.admit('192.0.2.1', ten))
    expect(waits.slice(0, 10)).toEqual(Array(10).fill(0))
    expect(waits[10]).toBeCloseTo(1_000)
    pass(1_000)
    expect(budget.admit('192.0.2.1', ten)).toBe(0)
    expect(budget.admit('192.0.2.1', ten)).toBeGreaterThan(0)
  })

  it('limits bytes and time separately', () => {
    const { budget } = budgetAt()
    expect(budget.admit('192.0.2.1', { workMs: 0, bytes: 5_000 })).toBe(0)
    expect(budget.admit('192.0.2.1', { workMs: 0, bytes: 500 })).toBeCloseTo(500)
    expect(budget.admit('192.0.2.1', { workMs: 1, bytes: 0 })).toBe(0)
  })

  it('charges what was spent beyond the estimate as a debt', () => {
    const { budget, pass } = budgetAt()
    expect(budget.admit('192.0.2.1', { workMs: 1, bytes: 0 })).toBe(0)
    budget.charge('192.0.2.1', { workMs: 300, bytes: 0 })
    expect(budget.admit('192.0.2.1', { workMs: 1, bytes: 0 })).toBeGreaterThan(20_000)
    pass(21_000)
    expect(budget.admit('192.0.2.1', { workMs: 1, bytes: 0 })).toBe(0)
  })

  it('admits a large estimate although a small charge always precedes it', () => {
    const { budget, pass } = budgetAt()
    const small = { workMs: 1, bytes: 0 }
    const large = { workMs: 1_000, bytes: 0 }
    expect([budget.admit('192.0.2.1', small), budget.admit('192.0.2.1', large)]).toEqual([0, 0])
    pass(200_000)
    expect([budget.admit('192.0.2.1', small), budget.admit('192.0.2.1', large)]).toEqual([0, 0])
  })

  it('never refuses forever: an estimate over the burst needs half of it', () => {
    const { budget, pass } = budgetAt()
    expect(budget.admit('192.0.2.1', { workMs: 1_000, bytes: 0 })).toBe(0)
    expect(budget.admit('192.0.2.1', { workMs: 1_000, bytes: 0 })).toBeGreaterThan(0)
    pass(100_000)
    expect(budget.admit('192.0.2.1', { workMs: 1_000, bytes: 0 })).toBe(0)
  })

  it('admits where what follows could be charged, too, and charges the estimate alone', () => {
    const { budget, pass } = budgetAt()
    const head = { workMs: 1, bytes: 0 }
    const rest = { workMs: 40, bytes: 0 }
    expect(budget.admit('192.0.2.1', { workMs: 60, bytes: 0 })).toBe(0)
    const waits = Array.from({ length: 100 }, () => budget.admit('192.0.2.1', head, rest))
    expect(waits).toEqual(Array(100).fill(expect.closeTo(100)))
    pass(100)
    expect(budget.admit('192.0.2.1', head, rest)).toBe(0)
    expect(budget.admit('192.0.2.1', rest)).toBe(0)
  })

  it('admits what follows, too, where both are over half a burst', () => {
    const { budget } = budgetAt()
    const large = { workMs: 1_000, bytes: 0 }
    expect(budget.admit('192.0.2.1', large, large)).toBe(0)
  })

  it('counts an IPv6 /64 as one client and other addresses separately', () => {
    const { budget } = budgetAt()
    const all = { workMs: 100, bytes: 0 }
    expect(budget.admit('2001:db8:1:2::1', all)).toBe(0)
    expect(budget.admit('2001:db8:1:2:ffff::9', all)).toBeGreaterThan(0)
    expect(budget.admit('2001:db8:1:3::1', all)).toBe(0)
    expect(budget.admit('192.0.2.2', all)).toBe(0)
    expect(budget.admit('::ffff:192.0.2.2', all)).toBeGreaterThan(0)
  })

  it('is disabled with a rate of 0', () => {
    const clock = { nowMs: () => 0, monotonicMs: () => 0 }
    const budget = new AddressBudget({ ...limits, workMsPerSecond: 0 }, clock)
    const costly = { workMs: 1_000, bytes: 1e9 }
    const waits = Array.from({ length: 100 }, () => budget.admit('192.0.2.1', costly))
    expect(new Set(waits)).toEqual(new Set([0]))
  })
})

describe('the key of an address', () => {
  it('is the address itself for IPv4 and the /64 for IPv6', () => {
    expect(addressKey('192.0.2.1')).toBe('192.0.2.1')
    expect(addressKey('2001:db8:1:2:3:4:5:6')).toBe('2001:db8:1:2::/64')
    expect(addressKey('::1')).toBe('::/64')
    expect(addressKey('no address')).toBe('no address')
    expect(addressKey('no:address')).toBe('no:address')
  })
})
