import { describe, expect, test } from 'vitest'
import type { FrameFacts } from '../../../../src/base/shared-log.ts'
import type { EventFact } from '../../../../src/indexer/feed-items.ts'
import {
  addDeliveryRows,
  addEventRows,
  RowBatches,
} from '../../../../src/indexer/rows/delivery-rows.ts'
import type { FrameKind } from '../../../../src/streams/log/encoded.ts'
import { rowsOf } from '../../../testkit/index-rows.ts'

const atNs = 1_700_000_000_123_456_789n

function rowsFrom(kind: FrameKind, payload: unknown, facts: Partial<FrameFacts> = {}) {
  const rows = new RowBatches()
  const parcel: EventFact = {
    seq: 41,
    kind,
    payload: Buffer.from(JSON.stringify(payload)),
    facts: { blockNumber: 9, atNs, ...facts },
  }
  addEventRows(parcel, rows)
  return rowsOf(rows.take())
}

const contention = {
  block_hash: '0xc',
  block_number: 9,
  block_wall_time_ns: 1_000_000,
  total_tx_time_ns: 2_000_000,
  parallel_efficiency_pct: 50.5,
  total_unique_slots: 4,
  contended_slot_count: 2,
  contention_ratio: 0.5,
  total_txn_count: 12,
  top_contended_slots: [
    { address: '0xa', slot: '0x1', txn_count: 5, access_count: 9 },
    { address: '0xb', slot: '0x2', txn_count: 2, access_count: 3 },
  ],
  top_contended_contracts: [
    {
      address: '0xa',
      total_slots: 3,
      contended_slots: 1,
      total_accesses: 9,
      contention_score: 0.25,
    },
  ],
  contract_edges: [{ contract_a: '0xa', contract_b: '0xb', shared_txn_count: 2 }],
  written_contended_slot_count: 1,
  critical_path_txn_count: 3,
}

describe('rows of event frames', () => {
  test('have the block number of TPS', () => {
    const tps = [{ seq: 41, block_number: 9, tps: 400, at: atNs }]
    expect(rowsFrom('TPS', 400)).toEqual({ tps })
  })

  test('have no time where a frame has no facts, never 1970', () => {
    const rows = new RowBatches()
    const frame = (kind: FrameKind, payload: unknown) =>
      ({ seq: 41, kind, payload: Buffer.from(JSON.stringify(payload)), facts: null }) as const
    addEventRows(frame('TPS', 400), rows)
    addEventRows(frame('ContentionData', contention), rows)
    addEventRows(
      frame('TopAccesses', { account: [{ key: '0xa', count: 7, error: 0 }], storage: [] }),
      rows,
    )
    const found = Object.entries(rowsOf(rows.take()))
    expect(found).toHaveLength(6)
    for (const [table, [row]] of found) expect([table, row?.at]).toEqual([table, null])
  })

  test('have every scalar of ContentionData, and its lists by rank', () => {
    const block = {
      blockHash: '0xc',
      ethHash: '0xe',
      txCount: 12,
      gasUsed: 21_000,
      startedNs: atNs,
    }
    const { top_contended_slots, top_contended_contracts, contract_edges, ...scalars } = contention
    const first = { seq: 41, block_number: 9, rank: 1, at: atNs }
    expect(rowsFrom('ContentionData', contention, { block })).toEqual({
      contention: [{ seq: 41, ...scalars, at: atNs }],
      contended_slots: top_contended_slots.map((one, place) => ({
        seq: 41,
        block_number: 9,
        rank: place + 1,
        ...one,
        at: atNs,
      })),
      contended_contracts: [{ ...first, ...top_contended_contracts[0] }],
      contract_edges: [{ ...first, ...contract_edges[0] }],
      execution_blocks: [
        {
          number: 9,
          block_hash: '0xc',
          eth_hash: '0xe',
          tx_count: 12,
          gas_used: 21_000,
          started_at: atNs,
        },
      ],
    })
  })

  test('distinguish accounts and storage slots of TopAccesses', () => {
    const top = {
      account: [{ key: '0xa', count: 7, error: 0 }],
      storage: [{ key: ['0xa', '0x1'], count: 5, error: 1 }],
    }
    const common = { seq: 41, block_number: 9, rank: 1, address: '0xa', at: atNs }
    expect(rowsFrom('TopAccesses', top).top_accesses).toEqual([
      { ...common, kind: 'account', slot: '', count: 7, error: 0 },
      { ...common, kind: 'storage', slot: '0x1', count: 5, error: 1 },
    ])
  })

  test('have lifecycle moves in nanoseconds; the first has no previous stage', () => {
    const move = { block_hash: '0xc', block_number: 9, block_age_ms: 400.25, txn_count: 3 }
    const row = { seq: 41, block_number: 9, block_hash: '0xc', age_ms: 400.25, at: atNs }
    expect(rowsFrom('Lifecycle', { ...move, to_stage: 'Proposed' }).block_lifecycle).toEqual([
      { ...row, from_stage: '', to_stage: 'Proposed' },
    ])
    const next = { ...move, from_stage: 'Proposed', to_stage: 'Voted' }
    expect(rowsFrom('Lifecycle', next).block_lifecycle).toEqual([
      { ...row, from_stage: 'Proposed', to_stage: 'Voted' },
    ])
  })

  test('are absent for a gap', () => {
    expect(rowsFrom('Gap', { from: 1, to: 2 })).toEqual({})
  })
})

test('tips and queries become a row each', () => {
  const rows = new RowBatches()
  const tip = {
    receivedAtMs: 1_700_000_000_123.75,
    signature: 's',
    feePayer: 'f',
    tipAccount: 't',
    lamports: 2n ** 64n - 1n,
    outcome: 'landed',
    reason: '',
    landedSlot: 77,
  }
  const query = {
    subscription: 'sub',
    atMs: 1_700_000_000_456,
    queryId: 'q',
    elapsedMs: 1.5,
    rows: 3,
    bytes: 99,
    code: 60,
  }
  const about = { bytes: 1, sinceMs: 0, mark: null }
  const tips = { ...about, feed: 'tips' as const, content: tip }
  const usage = { ...about, feed: 'usage' as const, content: query }
  addDeliveryRows({ parcels: [tips, usage], marks: {} }, rows)
  expect(rows.count).toBe(2)
  expect(rowsOf(rows.take())).toEqual({
    tips: [
      {
        received_at: 1_700_000_000_123,
        signature: 's',
        fee_payer: 'f',
        tip_account: 't',
        lamports: 2n ** 64n - 1n,
        outcome: 'landed',
        reason: '',
        landed_slot: 77,
      },
    ],
    usage: [
      {
        subscription: 'sub',
        at: 1_700_000_000_456,
        query_id: 'q',
        elapsed_ms: 1.5,
        rows: 3,
        bytes: 99,
        code: 60,
      },
    ],
  })
})
