// Tables and counters in shared memory, and the word that stops a loop.
import { describe, expect, it } from 'vitest'
import { ControlWord } from '../../../src/rings/control.ts'
import { allocateCounters, CounterBlock, CounterTotals } from '../../../src/rings/counters.ts'
import { SharedTable } from '../../../src/rings/table.ts'

describe('shared table', () => {
  it('gives back whole rows, through any view of the same memory', () => {
    const table = SharedTable.allocate({ rows: 3, columns: ['address', 'port', 'packets'] })
    const other = new SharedTable(structuredClone(table.descriptor))
    expect(other.read(1)).toBeNull()
    const before = other.changes
    table.write(1, { address: 2 ** 31, port: 65_535, packets: 2 ** 53 - 1 })
    expect(other.read(1)).toEqual({ address: 2 ** 31, port: 65_535, packets: 2 ** 53 - 1 })
    expect(other.read(0)).toBeNull()
    expect(other.changes).toBe(before + 1)
  })

  it('asserts its bounds', () => {
    const table = SharedTable.allocate({ rows: 2, columns: ['a'] })
    expect(() => table.read(2)).toThrow('row')
    expect(() => table.write(-1, { a: 1 })).toThrow('row')
    expect(() => SharedTable.allocate({ rows: 0, columns: ['a'] })).toThrow('rows')
  })
})

describe('shared counters', () => {
  const names = { counters: ['received', 'dropped'], histograms: { age: [0.1, 1] } } as const

  it('sums the blocks of all threads', () => {
    const descriptor = allocateCounters(names, 3)
    const totals = new CounterTotals(descriptor)
    for (let thread = 0; thread < 3; thread += 1) {
      const block = new CounterBlock(structuredClone(descriptor), thread)
      block.counter('received').inc()
      block.counter('dropped').inc(thread)
      const age = block.histogram('age')
      for (const value of [0.05, 0.1, 0.5, 7]) age.observe(value)
    }
    expect(totals.counter('received')).toBe(3)
    expect(totals.counter('dropped')).toBe(3)
    const { counts, sum } = totals.histogram('age')
    expect(counts).toEqual([6, 3, 3])
    expect(sum).toBeCloseTo(3 * 7.65)
  })

  it('goes on where the worker before it stopped', () => {
    const descriptor = allocateCounters(names, 1)
    new CounterBlock(descriptor, 0).counter('received').inc(5)
    new CounterBlock(descriptor, 0).counter('received').inc(2)
    expect(new CounterTotals(descriptor).counter('received')).toBe(7)
  })

  it('refuses names that are not declared, declared twice, and threads without a block', () => {
    const descriptor = allocateCounters(names, 1)
    expect(() => new CounterBlock(descriptor, 1)).toThrow('block')
    expect(() => new CounterBlock(descriptor, 0).counter('other' as 'received')).toThrow('declared')
    const twice = { counters: ['age'], histograms: { age: [1] } } as const
    expect(() => allocateCounters(twice, 1)).toThrow('once')
  })
})

describe('control word', () => {
  it('is seen by everyone who holds its memory', () => {
    const control = new ControlWord()
    const seen = new ControlWord(control.buffer)
    expect(seen.isStopped).toBe(false)
    control.stop()
    expect(seen.isStopped).toBe(true)
    seen.sleep(60_000)
  })
})
