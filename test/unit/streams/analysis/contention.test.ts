import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { Bench } from '../../../testkit/analysis.ts'
import { addressOf, EventScript, idOf, type StorageStep } from '../../../testkit/event-script.ts'
import { slowContention } from '../../../testkit/slow-contention.ts'

const bench = new Bench({ eventRingBytes: 4 * 1024 * 1024 })
const script = new EventScript(bench.feed)
let number = 0

function analyse(steps: readonly StorageStep[], txns: number, edit = () => {}) {
  number += 1
  script.start(number, { txns })
  for (let txn = 0; txn < txns; txn++) script.header(txn)
  edit()
  for (const step of steps) script.storage(step)
  script.end()
  const [block] = bench.drain()
  expect(block?.result.outcome).toBe('done')
  return block!.contention
}

function step(txn: number | null, contract: number, slot: number, more = {}): StorageStep {
  return { txn, address: addressOf(contract), slot: idOf(slot), ...more }
}

describe('ContentionData', () => {
  test('equals the slow, obvious computation on random blocks', () => {
    const access = fc.record({
      txn: fc.option(fc.integer({ min: 0, max: 30 }), { freq: 12 }),
      contract: fc.integer({ min: 0, max: 18 }),
      slot: fc.integer({ min: 0, max: 12 }),
      writes: fc.boolean(),
      transient: fc.integer({ min: 0, max: 9 }).map((roll) => roll === 0),
    })
    const block = fc.record({
      accesses: fc.array(access, { maxLength: 400 }),
      isSorted: fc.boolean(),
    })
    fc.assert(
      fc.property(block, ({ accesses, isSorted }) => {
        const steps = accesses.map(({ txn, contract, slot, writes, transient }) =>
          step(txn, contract, slot, { writes, transient }),
        )
        if (isSorted) steps.sort((a, b) => (a.txn ?? -1) - (b.txn ?? -1))
        expect(analyse(steps, 31)).toMatchObject(slowContention(steps, 31))
      }),
      { numRuns: 150 },
    )
  })

  test('counts pairs beyond the first size of their table', () => {
    const steps = Array.from({ length: 3 }, (_, txn) =>
      Array.from({ length: 120 }, (_, contract) => step(txn, contract, 0)),
    ).flat()
    expect(analyse(steps, 3)).toMatchObject(slowContention(steps, 3))
  })

  test('gives zeros and empty lists for an empty block', () => {
    expect(analyse([], 0)).toMatchObject({
      total_tx_time_ns: 0,
      parallel_efficiency_pct: 0,
      total_unique_slots: 0,
      contention_ratio: 0,
      total_txn_count: 0,
      critical_path_txn_count: 0,
      top_contended_slots: [],
      top_contended_contracts: [],
      contract_edges: [],
    })
  })

  test('measures a transaction from EVM enter to exit where both exist, else header to end', () => {
    const both = analyse([], 1, () => {
      script.enter(0)
      script.timeNs += 5_000_000n
      script.exit(0)
      script.timeNs += 9_000_000n
      script.txnEnd(0)
    })
    expect(both.total_tx_time_ns).toBe(5_001_000)
    const enterOnly = analyse([], 1, () => {
      script.enter(0)
      script.timeNs += 7_000_000n
      script.txnEnd(0)
    })
    expect(enterOnly.total_tx_time_ns).toBe(7_002_000)
  })

  test('counts a span that runs backwards as 0 and keeps the efficiency at 0 or more', () => {
    const backwards = analyse([], 1, () => {
      script.enter(0)
      script.timeNs -= 5_000_000n
      script.exit(0)
    })
    expect(backwards.total_tx_time_ns).toBe(0)
    expect(backwards.parallel_efficiency_pct).toBe(0)
    script.timeNs += 10_000_000n
    const slow = analyse([], 1, () => {
      script.enter(0)
      script.timeNs += 1_000_000n
      script.exit(0)
      script.timeNs += 1_000_000n
    })
    expect(slow.parallel_efficiency_pct).toBe(0)
  })

  test('rejects records that are shorter than their type, and continues with the next block', () => {
    number += 1
    script.start(number)
    script.emit(23, new Uint8Array(60), 0)
    script.end()
    const [damaged] = bench.drain()
    expect(damaged?.result).toEqual({ outcome: 'lost', reason: 'malformed' })
    expect(analyse([step(0, 1, 1)], 1).total_unique_slots).toBe(1)
  })

  test('rejects a transaction index beyond every bound', () => {
    number += 1
    script.start(number)
    script.enter(2 ** 20)
    script.end()
    const [damaged] = bench.drain()
    expect(damaged?.result).toEqual({ outcome: 'lost', reason: 'too-large' })
  })
})
