// Tests what the live page concludes from frames: whose TPS it is, what is missing, who competed.
import { beforeEach, describe, expect, test } from 'vitest'
import type { ContentionData, Lifecycle, Stage } from '../../../src/client/frames.ts'
import { ContractWeb } from '../../../src/live/contract-web.ts'
import { PageStore } from '../../../src/live/page-store.ts'

let store: PageStore
beforeEach(() => {
  store = new PageStore(() => {})
})

function data(number: number, more: Partial<ContentionData> = {}): ContentionData {
  return {
    block_number: number,
    block_hash: `h${number}`,
    at_ms: number,
    block_wall_time_ns: 5e6,
    total_tx_time_ns: 1e8,
    parallel_efficiency_pct: 95,
    total_unique_slots: 9,
    contended_slot_count: 3,
    contention_ratio: 0.3,
    total_txn_count: 12,
    top_contended_slots: [],
    top_contended_contracts: [],
    contract_edges: [],
    written_contended_slot_count: 2,
    critical_path_txn_count: 4,
    ...more,
  }
}

function move(number: number, stage: Stage, hash = `h${number}`, age = 0): Lifecycle {
  return {
    block_hash: hash,
    block_number: number,
    to_stage: stage,
    block_age_ms: age,
    txn_count: 12,
    at_ms: number,
  }
}

describe('Store', () => {
  test('gives a TPS to the block of the Proposed move that follows it', () => {
    store.takeTps(400, 1)
    store.takeLifecycle(move(1, 'Proposed'), 2, 0)
    store.takeTps(500, 3)
    store.takeContention(data(1), 4)
    expect(store.history.value('tps', 0)).toBe(400)
  })

  test('has no efficiency for an empty block', () => {
    store.takeContention(data(1, { total_txn_count: 0, parallel_efficiency_pct: 0 }), 1)
    expect(store.history.value('efficiency', 0)).toBeNaN()
  })

  test('logs a fall of the efficiency, but has no verdict on small or uncontended blocks', () => {
    const low = { parallel_efficiency_pct: 78.6, total_txn_count: 50 }
    store.takeContention(data(1, { ...low, total_txn_count: 49 }), 1)
    store.takeContention(data(2, { ...low, contended_slot_count: 0 }), 2)
    expect(store.log.lines).toEqual([])
    store.takeContention(data(3, low), 3)
    expect(store.log.lines.map(({ kind, text }) => `${kind}: ${text}`)).toEqual([
      'efficiency: 78.6 % (bottlenecks) at block 3',
    ])
    store.takeContention(data(4, { ...low, total_txn_count: 13 }), 4)
    store.takeContention(data(5, low), 5)
    expect(store.log.lines).toHaveLength(1)
  })

  test('counts the blocks of a hole when the next one arrives', () => {
    store.takeContention(data(10), 1)
    store.takeHole('hole')
    store.takeContention(data(52), 2)
    expect(store.marks).toEqual([{ kind: 'hole', after: 10, text: 'not seen here: 41 blocks' }])
  })

  test('forgets a hole in which nothing was missed, but not a restart', () => {
    store.takeContention(data(10), 1)
    store.takeHole('hole')
    store.takeContention(data(11), 2)
    store.takeHole('restart')
    store.takeContention(data(12), 3)
    expect(store.marks.map(({ text }) => text)).toEqual(['server restarted'])
  })

  test('shows the other proposal of a height when the first is rejected', () => {
    store.takeLifecycle(move(5, 'Proposed'), 1, 0)
    store.takeContention(data(5), 2)
    store.takeLifecycle(move(5, 'Proposed', 'other'), 3, 0)
    store.takeContention(data(5, { block_hash: 'other', contended_slot_count: 99 }), 4)
    expect([store.history.length, store.history.value('contended', 0)]).toEqual([1, 3])
    store.takeLifecycle(move(5, 'Rejected'), 5, 0)
    expect(store.history.value('contended', 0)).toBe(99)
  })

  test('counts a finalization once, also when REST repeats it', () => {
    store.takeLifecycle(move(5, 'Finalized', 'h5', 800), 1, 0)
    const record = { ...move(5, 'Verified', 'h5', 1200), current_stage: 'Verified' as const }
    store.takeRecords([{ ...record, stage_timings_ms: { Finalized: 800, Verified: 1200 } }], 0)
    expect(store.finalized).toEqual([800])
  })

  test('keeps 600 frames, 160 proposals, 200 lines', () => {
    for (let number = 1; number <= 2000; number++) {
      store.takeLifecycle(move(number, 'Rejected'), 0, 0)
      store.takeContention(data(number), 0)
      store.takeGap({ from: number, to: number }, 0)
    }
    expect(store.detailOf('h1400')).toBeNull()
    expect(store.detailOf('h1401')?.block_number).toBe(1401)
    expect([store.proposals.length, store.log.lines.length, store.marks.length]).toEqual([
      160, 200, 64,
    ])
  })
})

describe('ContractWeb', () => {
  test('shows the ends of edges that are not contended themselves, and forgets by decay', () => {
    const web = new ContractWeb()
    const contract = {
      total_slots: 9,
      contended_slots: 4,
      total_accesses: 9,
      contention_score: 0.4,
    }
    web.add(
      data(1, {
        top_contended_contracts: [{ address: 'a', ...contract }],
        contract_edges: [{ contract_a: 'a', contract_b: 'z', shared_txn_count: 3 }],
      }),
    )
    expect(web.strongest().contracts.map(({ address, weight }) => [address, weight])).toEqual([
      ['a', 4],
      ['z', 0],
    ])
    for (let number = 2; number < 200; number++) web.add(data(number))
    expect(web.strongest()).toEqual({ contracts: [], edges: [] })
  })
})
