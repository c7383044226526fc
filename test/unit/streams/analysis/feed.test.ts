import { describe, expect, test } from 'vitest'
import { EventType } from '../../../../src/chain/evm/event-payload.ts'
import { EventFeed, rangeStatus } from '../../../../src/streams/analysis/feed.ts'
import { Bench } from '../../../testkit/analysis.ts'
import { addressOf, EventScript, idOf } from '../../../testkit/event-script.ts'

function open(eventRingBytes = 1024 * 1024) {
  const bench = new Bench({ eventRingBytes })
  return { bench, script: new EventScript(bench.feed) }
}

const gapsOf = (bench: Bench) =>
  bench.controls.flatMap((control) => (control.kind === 'gap' ? [[control.from, control.to]] : []))

const endsOf = (bench: Bench) =>
  bench.controls.flatMap((control) =>
    control.kind === 'event' && control.type === EventType.BlockEnd ? [control] : [],
  )

describe('event feed', () => {
  test('counts the sequence numbers of events that have no reader', () => {
    const { bench, script } = open()
    script.start(1)
    for (let index = 0; index < 10; index++) script.emit(EventType.TxnLog, new Uint8Array(40), 0)
    bench.feed.flush()
    expect(bench.syncTable.seqno()).toBe(11)
    script.end()
    expect(bench.drain()).toHaveLength(1)
    expect(bench.syncTable.seqno()).toBe(12)
    expect(gapsOf(bench)).toEqual([])
  })

  test.each([false, true])('the end is no event (stopping: %s)', (isStopping) => {
    const { bench } = open()
    let nowMs = 1
    const options = { isLossless: false, nowMs: () => nowMs, isStopping: () => isStopping }
    const feed = new EventFeed(bench.memory, options)
    const script = new EventScript(feed)
    script.start(1)
    feed.flush()
    nowMs = 40_000
    feed.end()
    expect(bench.syncTable.lastEventMs()).toBe(1)
    bench.drain()
    const ends = bench.controls.filter(({ kind }) => kind === 'ended')
    expect(ends).toHaveLength(isStopping ? 0 : 1)
  })

  test('does not analyse a block with a gap in it, and reports the lost numbers', () => {
    const { bench, script } = open()
    script.start(1)
    script.header(0)
    bench.feed.gap(script.seqno + 1, script.seqno + 5)
    script.seqno += 5
    script.header(1)
    script.end()
    script.start(2)
    script.header(0)
    script.end()
    const blocks = bench.drain()
    expect(blocks.map((block) => block.number)).toEqual([2])
    expect(gapsOf(bench)).toEqual([[3, 7]])
    expect(endsOf(bench).map((end) => end.status)).toEqual([rangeStatus.none, rangeStatus.whole])
  })

  test('detects a gap that the source did not report', () => {
    const { bench, script } = open()
    script.start(1)
    script.seqno += 3
    script.end()
    expect(bench.drain()).toEqual([])
    expect(gapsOf(bench)).toEqual([[2, 4]])
  })

  test('gives up an open block when the source restarts at an earlier number', () => {
    const { bench, script } = open()
    script.seqno = 50
    script.start(1)
    script.header(0)
    script.seqno = 0
    script.header(1)
    script.end()
    expect(bench.drain()).toEqual([])
    expect(gapsOf(bench)).toEqual([[51, 52]])
  })

  test('treats an event that the node could not record as lost', () => {
    const { bench, script } = open()
    script.start(1)
    const lost = script.emit(EventType.RecordError, new Uint8Array(16))
    script.end()
    expect(bench.drain()).toEqual([])
    expect(gapsOf(bench)).toEqual([[lost, lost]])
  })

  test('reports a block that does not fit the ring, and continues with the next', () => {
    const { bench, script } = open(512 * 1024)
    script.start(1)
    for (let index = 0; index < 12_000; index++) script.account(addressOf(index))
    script.end()
    script.start(2)
    script.storage({ txn: 0, address: addressOf(1), slot: idOf(1) })
    script.end()
    expect(bench.drain().map((block) => block.number)).toEqual([2])
    expect(endsOf(bench).map((end) => end.status)).toEqual([
      rangeStatus.tooLarge,
      rangeStatus.whole,
    ])
    expect(endsOf(bench)[0]!.firstSeqno).toBe(1)
  })

  test('never returns a result for records that were overwritten before they were read', () => {
    const { bench, script } = open(512 * 1024)
    for (let number = 1; number <= 60; number++) {
      script.start(number)
      for (let index = 0; index < 500; index++) script.account(addressOf(index), 0)
      script.end()
    }
    const blocks = bench.drain()
    expect(blocks).toHaveLength(60)
    const lost = blocks.filter((block) => block.result.outcome === 'lost')
    expect(lost.length).toBeGreaterThan(30)
    expect(lost[0]!.result).toEqual({ outcome: 'lost', reason: 'overrun' })
    const done = blocks.filter((block) => block.result.outcome === 'done')
    expect(done.length).toBeGreaterThan(5)
    const [first] = done.at(-1)!.top.account as { count: number }[]
    expect(first!.count).toBe(done.length)
  })

  test('reassembles call data of any length', () => {
    const { bench, script } = open(4 * 1024 * 1024)
    const data = Uint8Array.from({ length: 300_000 }, (_, index) => index * 7)
    script.start(1)
    script.header(0, data)
    script.header(1, data.subarray(0, 5))
    script.end()
    const [block] = bench.drain()
    const { result } = block!
    if (result.outcome !== 'done') throw new Error('analysed')
    const { buffer, byteOffset } = result.transactions
    const view = new DataView(buffer, byteOffset)
    expect(view.getUint32(8, true)).toBe(352 + data.length)
    const copied = result.transactions.subarray(16 + 352, 16 + 352 + data.length)
    expect(Buffer.compare(copied, data)).toBe(0)
  })
})
