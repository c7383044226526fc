import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  activeDepthMax,
  BlockStages,
  finalMax,
} from '../../../../src/streams/analysis/block-stages.ts'

const ms = 1_000_000n
let seqno = 0

function propose(lifecycle: BlockStages, id: string, number: number, timeMs = 0) {
  seqno += 1
  const moves = lifecycle.propose({
    id,
    number,
    startSeqno: seqno,
    timeNs: BigInt(timeMs) * ms,
    txnCount: 3,
  })
  return { moves, startSeqno: seqno }
}

describe('Lifecycle', () => {
  test('moves Proposed -> Voted -> Finalized -> Verified with times from event timestamps', () => {
    const lifecycle = new BlockStages()
    expect(propose(lifecycle, 'a', 7, 100).moves).toEqual([
      {
        block_hash: 'a',
        block_number: 7,
        to_stage: 'Proposed',
        block_age_ms: 0,
        txn_count: 3,
        at_ms: 100,
      },
    ])
    lifecycle.execute('a', { ethHash: '0xe', gasUsed: 21_000, timeNs: 150n * ms })
    expect(lifecycle.vote('a', 500_250_000n)).toEqual([
      {
        block_hash: 'a',
        block_number: 7,
        from_stage: 'Proposed',
        to_stage: 'Voted',
        time_in_previous_stage_ms: 400.25,
        block_age_ms: 400.25,
        txn_count: 3,
        gas_used: 21_000,
        at_ms: 500,
      },
    ])
    lifecycle.finalize('a', 900n * ms)
    expect(lifecycle.verify(7, 1300n * ms)[0]).toMatchObject({
      from_stage: 'Finalized',
      time_in_previous_stage_ms: 400,
      block_age_ms: 1200,
    })
    expect(lifecycle.record(7)).toEqual({
      block_hash: 'a',
      block_number: 7,
      from_stage: 'Finalized',
      to_stage: 'Verified',
      time_in_previous_stage_ms: 400,
      block_age_ms: 1200,
      txn_count: 3,
      gas_used: 21_000,
      at_ms: 1300,
      current_stage: 'Verified',
      eth_block_hash: '0xe',
      stage_timings_ms: { Voted: 400.25, Finalized: 800, Verified: 1200 },
      execution_time_ms: 50,
      total_age_ms: 1200,
    })
  })

  test('leaves absent optionals out of a fresh record', () => {
    const lifecycle = new BlockStages()
    propose(lifecycle, 'a', 7)
    expect(lifecycle.record(7)).toEqual({
      block_hash: 'a',
      block_number: 7,
      to_stage: 'Proposed',
      block_age_ms: 0,
      txn_count: 3,
      at_ms: 0,
      current_stage: 'Proposed',
      stage_timings_ms: {},
      total_age_ms: 0,
    })
    expect(lifecycle.record(8)).toBeNull()
  })

  test('allows skips and never goes back', () => {
    const lifecycle = new BlockStages()
    propose(lifecycle, 'a', 1)
    expect(lifecycle.finalize('a', ms)).toHaveLength(1)
    expect(lifecycle.vote('a', 2n * ms)).toEqual([])
    expect(lifecycle.finalize('a', 2n * ms)).toEqual([])
    expect(lifecycle.verify(1, 3n * ms)).toHaveLength(1)
    expect(lifecycle.verify(1, 4n * ms)).toEqual([])
    expect(lifecycle.vote('unknown', ms)).toEqual([])
  })

  test('rejects every other active proposal of a number when one is finalized', () => {
    const lifecycle = new BlockStages()
    for (const id of ['a', 'b', 'c']) propose(lifecycle, id, 5)
    propose(lifecycle, 'd', 6)
    lifecycle.vote('c', ms)
    const moves = lifecycle.finalize('b', 2n * ms)
    expect(moves.map((move) => [move.block_hash, move.from_stage, move.to_stage])).toEqual([
      ['b', 'Proposed', 'Finalized'],
      ['a', 'Proposed', 'Rejected'],
      ['c', 'Voted', 'Rejected'],
    ])
    expect(lifecycle.stageOf('d')).toBe('Proposed')
    expect(lifecycle.finalize('a', 3n * ms)).toEqual([])
    expect(lifecycle.idOf(5)).toBe('b')
  })

  test('resolves a verified number to the finalized proposal, not to the last one', () => {
    const lifecycle = new BlockStages()
    propose(lifecycle, 'a', 5)
    lifecycle.finalize('a', ms)
    propose(lifecycle, 'late', 5)
    expect(lifecycle.verify(5, 2n * ms).map((move) => move.block_hash)).toEqual(['a', 'late'])
  })

  test('rejects the proposal whose BlockStart a BlockReject names', () => {
    const lifecycle = new BlockStages()
    const { startSeqno } = propose(lifecycle, 'a', 5)
    propose(lifecycle, 'b', 5)
    expect(lifecycle.reject(startSeqno, ms)[0]).toMatchObject({
      block_hash: 'a',
      to_stage: 'Rejected',
    })
    expect(lifecycle.reject(startSeqno, ms)).toEqual([])
    expect(lifecycle.idOf(5)).toBe('b')
  })

  test('lists ascending by number, then first seen', () => {
    const lifecycle = new BlockStages()
    for (const [id, number] of [
      ['x', 9],
      ['y', 8],
      ['z', 9],
    ] as const)
      propose(lifecycle, id, number)
    expect(lifecycle.records().map((record) => record.block_hash)).toEqual(['y', 'x', 'z'])
  })

  test('keeps active blocks within 1,000 of the head and the last 128 final ones', () => {
    const lifecycle = new BlockStages()
    propose(lifecycle, 'stuck', 1)
    for (let number = 2; number <= activeDepthMax + 1; number++) {
      propose(lifecycle, `b${number}`, number)
      lifecycle.finalize(`b${number}`, ms)
      lifecycle.verify(number, ms)
    }
    expect(lifecycle.record(1)).not.toBeNull()
    expect(lifecycle.records()).toHaveLength(1 + finalMax)
    propose(lifecycle, 'head', activeDepthMax + 2)
    expect(lifecycle.record(1)).toBeNull()
    expect(lifecycle.records()).toHaveLength(1 + finalMax)
  })

  test('treats a repeated proposal as a new one', () => {
    const lifecycle = new BlockStages()
    propose(lifecycle, 'a', 1)
    lifecycle.finalize('a', ms)
    propose(lifecycle, 'a', 1)
    expect(lifecycle.records().map((record) => record.current_stage)).toEqual(['Proposed'])
  })

  test('keeps its bounds and its order under any sequence of events', () => {
    const rank = { Proposed: 0, Voted: 1, Finalized: 2, Verified: 3, Rejected: 4 }
    const step = fc.tuple(
      fc.constantFrom('propose', 'vote', 'finalize', 'verify', 'reject'),
      fc.integer({ min: 0, max: 9 }),
      fc.integer({ min: 0, max: 2 }),
    )
    fc.assert(
      fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
        const lifecycle = new BlockStages()
        const starts = new Map<string, number>()
        for (const [verb, number, fork] of steps) {
          const id = `${number}-${fork}`
          if (verb === 'propose') starts.set(id, propose(lifecycle, id, number).startSeqno)
          const moves =
            verb === 'vote'
              ? lifecycle.vote(id, ms)
              : verb === 'finalize'
                ? lifecycle.finalize(id, ms)
                : verb === 'verify'
                  ? lifecycle.verify(number, ms)
                  : verb === 'reject'
                    ? lifecycle.reject(starts.get(id) ?? -1, ms)
                    : []
          for (const move of moves)
            expect(rank[move.to_stage]).toBeGreaterThan(rank[move.from_stage!])
          for (const record of lifecycle.records())
            if (lifecycle.idOf(record.block_number) === record.block_hash)
              expect(lifecycle.record(record.block_number)).toEqual(record)
        }
      }),
    )
  })
})
