import { describe, expect, test } from 'vitest'
import { BlockAnalyst } from '../../../../src/streams/analysis/job.ts'
import { Bench, parse } from '../../../testkit/analysis.ts'
import { addressOf, EventScript, idOf } from '../../../testkit/event-script.ts'

function block(script: EventScript, number: number, accounts: readonly number[], timestamp = 0) {
  script.start(number, { timestamp })
  for (const account of accounts) script.account(addressOf(account))
  script.storage({ txn: null, address: addressOf(9), slot: idOf(1) })
  script.storage({ txn: 0, address: addressOf(9), slot: idOf(1), transient: true })
  script.end()
}

function open() {
  const bench = new Bench({ eventRingBytes: 1024 * 1024 })
  return { bench, script: new EventScript(bench.feed) }
}

const accountsOf = (top: Record<string, unknown>) =>
  (top.account as { key: string; count: number }[]).map(({ count }) => count)

describe('block analysis', () => {
  test('counts accesses outside of transactions in TopAccesses, never transient ones', () => {
    const { bench, script } = open()
    block(script, 1, [1, 1, 2])
    const [first] = bench.drain()
    expect(accountsOf(first!.top)).toEqual([2, 1])
    expect(first!.top.storage).toEqual([
      {
        key: [expect.stringMatching(/^0x[0-9a-f]{40}$/), expect.stringMatching(/^0x[0-9a-f]{64}$/)],
        count: 1,
        error: 0,
      },
    ])
    expect(first!.contention.total_unique_slots).toBe(0)
  })

  test('resets the trackers when block timestamps enter a new 5-minute window', () => {
    const { bench, script } = open()
    block(script, 1, [1, 1], 299)
    block(script, 2, [1], 300)
    block(script, 3, [1], 599)
    block(script, 4, [2], 901)
    const counts = bench.drain().map((found) => accountsOf(found.top))
    expect(counts).toEqual([[2], [1], [2], [1]])
  })

  test('orders equal counts by key', () => {
    const { bench, script } = open()
    block(script, 1, [5, 3, 4, 1])
    const keys = (bench.drain()[0]!.top.account as { key: string }[]).map(({ key }) => key)
    expect(keys).toEqual([...keys].sort())
  })

  test('returns the same result when a fed block is analysed again', () => {
    const { bench, script } = open()
    block(script, 1, [1, 2, 2])
    const [first] = bench.drain()
    const control = bench.controls.find((found) => found.kind === 'event' && found.status === 1)
    if (control?.kind !== 'event' || first?.result.outcome !== 'done') throw new Error('analysed')
    const again = new BlockAnalyst(bench.memory).analyse({
      ticket: 0,
      round: 0,
      from: control.from,
      to: control.to,
      number: 1,
      wallNs: control.wallNs,
      timestampSecs: 0,
    })
    expect(again).toEqual(first.result)
    // And the trackers were not fed twice.
    block(script, 2, [2])
    const second = bench.drain()[0]!.result
    if (second.outcome !== 'done') throw new Error('analysed')
    expect(accountsOf(parse(second.top))).toEqual([3, 1])
  })

  test('returns retry when it is called back before its turn', () => {
    const { bench, script } = open()
    block(script, 1, [1])
    const analyst = new BlockAnalyst(bench.memory)
    const job = { from: 0, to: 0, number: 1, wallNs: 0, timestampSecs: 0 }
    bench.syncTable.nextRound()
    expect(analyst.analyse({ ...job, ticket: 5, round: 0 })).toEqual({ outcome: 'retry' })
    expect(bench.syncTable.turn()).toEqual({ ticket: 0, state: 0 })
  })

  test('returns retry when a dead worker still has the scratch', () => {
    const { bench } = open()
    expect(bench.syncTable.acquireScratch(0)).toBe(0)
    const job = { ticket: 0, round: 0, from: 0, to: 0, number: 1, wallNs: 0, timestampSecs: 0 }
    const analyst = new BlockAnalyst(bench.memory)
    expect(analyst.analyse(job)).toEqual({ outcome: 'retry' })
    bench.syncTable.clearScratch()
    expect(analyst.analyse(job).outcome).toBe('done')
  })
})
