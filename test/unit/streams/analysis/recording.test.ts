import { beforeAll, describe, expect, test } from 'vitest'
import { blockStart, EventType } from '../../../../src/chain/evm/event-payload.ts'
import { readU256 } from '../../../../src/chain/evm/words.ts'
import { Tps } from '../../../../src/streams/analysis/block-stages.ts'
import { TextCache } from '../../../../src/streams/analysis/block-text.ts'
import { ExecutedBlock } from '../../../../src/streams/analysis/executed-block.ts'
import { type AnalysedBlock, Bench } from '../../../testkit/analysis.ts'
import {
  contractsWithContention,
  distinctPairs,
  efficiency,
  oracle,
  tpsSequence,
} from '../../../testkit/oracle.ts'
import { realData } from '../../../testkit/real-data.ts'
import { Recording } from '../../../testkit/recording.ts'
import { transactionsOf } from '../../../testkit/slow-transactions.ts'
import { wholeText } from '../../../testkit/whole-text.ts'

const recorded = realData('execution/emn-30b-15m.snapshot.zst')

interface Listed {
  readonly txn_count: number
  readonly access_count: number
  readonly shared_txn_count: number
  readonly count: number
  readonly error: number
}

const list = (of: Record<string, unknown>, name: string): Listed[] => of[name] as Listed[]

describe.skipIf(recorded.isMissing)(recorded.title('the recording of 30 real blocks'), () => {
  let recording: Recording
  let blocks: AnalysedBlock[]

  function play(options?: { timestampSecs: number }): AnalysedBlock[] {
    const bench = new Bench(options)
    expect(recording.play(bench.feed)).toBe(136_891)
    expect(bench.syncTable.seqno()).toBeGreaterThan(136_000)
    return bench.drain()
  }

  beforeAll(() => {
    recording = new Recording(recorded.path)
    blocks = play()
  })

  test('meets every value of the oracle', () => {
    const rows = blocks.map(({ contention: c }) => [
      c.block_number,
      c.total_txn_count,
      c.total_unique_slots,
      c.contended_slot_count,
      c.block_wall_time_ns,
      c.total_tx_time_ns,
      list(c, 'top_contended_slots')[0]?.txn_count ?? 0,
      list(c, 'contract_edges')[0]?.shared_txn_count ?? 0,
    ])
    expect(rows).toEqual(oracle)
    for (const { contention } of blocks)
      for (const slot of list(contention, 'top_contended_slots'))
        expect(slot.access_count).toBe(slot.txn_count)
    const lengths = (name: string) => blocks.map((block) => list(block.contention, name).length)
    const capped = (counts: readonly number[]) => counts.map((count) => Math.min(15, count))
    expect(lengths('top_contended_contracts')).toEqual(capped(contractsWithContention))
    expect(lengths('contract_edges')).toEqual(capped(distinctPairs))
    const rounded = blocks.map(
      ({ contention }) => Math.round((contention.parallel_efficiency_pct as number) * 100) / 100,
    )
    expect(rounded).toEqual(efficiency)
  })

  test('sums up to the known totals, of which a third are written slots', () => {
    const sum = (name: string) =>
      blocks.reduce((total, { contention }) => total + (contention[name] as number), 0)
    expect(sum('total_unique_slots')).toBe(29_720)
    expect(sum('contended_slot_count')).toBe(1_968)
    expect(sum('written_contended_slot_count')).toBe(627)
  })

  test('gives the known TPS sequence', () => {
    const tps = new Tps()
    const values = blocks.map(({ number, txnCount }) => {
      const value = tps.start(number)
      tps.complete(txnCount)
      return value
    })
    expect(values).toEqual(tpsSequence)
  })

  test('counts the top slot and the top account exactly with 1,000 counters', () => {
    // The blocks carry their original times, which cross a 5-minute boundary: fixed here.
    const { top } = play({ timestampSecs: 1 }).at(-1)!
    const counts = (name: string) => list(top, name).map((entry) => entry.count - entry.error)
    expect(list(top, 'account')[0]).toMatchObject({ count: 2776, error: 0 })
    expect(list(top, 'storage')[0]).toMatchObject({ count: 785, error: 0 })
    const exact = {
      account: [2776, 1282, 1029, 890, 786, 678, 487, 487, 483, 415],
      storage: [785, 766, 766, 766, 487, 487, 485, 370, 341, 209],
    }
    for (const [name, truth] of Object.entries(exact))
      for (const [index, value] of truth.entries()) {
        expect(list(top, name)[index]!.count).toBeGreaterThanOrEqual(value)
        expect(list(top, name)[index]!.count).toBeLessThanOrEqual(value + 3)
        expect(counts(name)[index]).toBeLessThanOrEqual(value)
      }
  })

  test('gives the same bytes in two runs, whatever the secret of the hash', () => {
    const bytes = (run: AnalysedBlock[]) =>
      run.map(({ result }) =>
        result.outcome === 'done' ? [result.contention, result.top, result.transactions] : null,
      )
    const again = bytes(play())
    for (const [index, parts] of bytes(blocks).entries())
      for (const [part, known] of parts!.entries())
        expect(Buffer.compare(again[index]![part]!, known)).toBe(0)
  })

  test('keeps headers and transactions as the chain has them', () => {
    const bench = new Bench()
    recording.play(bench.feed)
    const analysed = bench.drain()
    const events = bench.controls.flatMap((control) => (control.kind === 'event' ? [control] : []))
    const starts = events.filter((event) => event.type === EventType.BlockStart)
    const ends = events.filter((event) => event.type === EventType.BlockEnd)
    const kept = analysed.map(({ result }, index) => {
      if (result.outcome !== 'done') throw new Error('every block is analysed')
      const [start, end] = [starts[index]!.payload, ends[index]!.payload]
      const block = new ExecutedBlock(start, end, result.transactions, new TextCache(1e9))
      return { ethHash: block.ethHash, block, records: result.transactions, start }
    })
    for (const [index, { block, records, start }] of kept.entries()) {
      const full = wholeText(block.text(true))
      // Each header names the hash of the one before: the fields are read where they lie.
      if (index > 0) expect(full.parentHash).toBe(kept[index - 1]!.ethHash)
      expect(full.transactions).toHaveLength(oracle[index]![1]!)
      const { ethHash: blockHash, number: blockNumber } = block
      const baseFee = readU256(start, blockStart.baseFee)
      expect(full.transactions).toEqual(
        transactionsOf(records, { blockHash, blockNumber, baseFee }),
      )
      const hashes = full.transactions.map(({ hash }) => hash)
      expect(wholeText(block.text(false))).toEqual({ ...full, transactions: hashes })
    }
    expect(wholeText(kept[0]!.block.text(false))).toMatchObject({
      number: '0xe4e1c1',
      gasLimit: '0x1c9c380',
    })
  })
})
