import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import {
  BlockAnalyst,
  type BlockJob,
  BlockJobs,
  type BlockResult,
  SyncTable,
} from '../../../../src/streams/analysis/block-jobs.ts'
import { syncTableBytes } from '../../../../src/streams/analysis/memory.ts'
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

describe('block jobs', () => {
  const lookMs = 250
  const hangLooks = 2000 / lookMs
  const startLooks = 10_000 / lookMs
  const spec = { from: 0, to: 0, number: 1, wallNs: 0, timestampSecs: 0 }
  const lost: BlockResult = { outcome: 'lost', reason: 'malformed' }

  /** Batches that run until the test ends them; a batch is named by its tickets. */
  function setUp(workers: number, blocks: number) {
    const memory = { buffer: new SharedArrayBuffer(syncTableBytes) }
    const syncTable = new SyncTable({ memory, syncTable: 0, workers })
    const notes: string[] = []
    interface Batch {
      resolve(results: readonly BlockResult[]): void
      reject(error: Error): void
    }
    const batches = new Map<string, Batch>()
    const run = (jobs: readonly BlockJob[], end: AbortSignal) => {
      const name = jobs.map(({ ticket }) => ticket).join()
      end.addEventListener('abort', () => notes.push(`hung ${name}`))
      return new Promise<readonly BlockResult[]>((resolve, reject) => {
        batches.set(name, { resolve, reject })
      })
    }
    const onFailure = (_: unknown, isGivenUp: boolean) => {
      notes.push(isGivenUp ? 'given up' : 'failed')
    }
    const jobs = new BlockJobs({ syncTable, workers, run, onFailure })
    for (let at = 0; at < blocks; at++)
      jobs.submit(spec, (outcome) => notes.push(`${at} ${outcome.outcome}`))
    const take = (name: string) => {
      const batch = batches.get(name)!
      batches.delete(name)
      return batch
    }
    const settle = (name: string, ...results: BlockResult[]) => {
      take(name).resolve(results)
      return vi.advanceTimersByTimeAsync(0)
    }
    const fail = (name: string) => {
      take(name).reject(new Error('worker exited'))
      return vi.advanceTimersByTimeAsync(0)
    }
    const look = (times: number) => vi.advanceTimersByTimeAsync(times * lookMs)
    return { syncTable, notes, look, settle, fail, running: () => [...batches.keys()] }
  }

  beforeEach(() => void vi.useFakeTimers())
  afterEach(() => void vi.useRealTimers())

  test('throws when a block passes a turn that is not its own, or frees an area twice', () => {
    const { syncTable } = setUp(1, 1)
    expect(() => syncTable.pass(1, 0)).toThrow('whose turn it is')
    syncTable.pass(0, 0)
    expect(() => syncTable.pass(0, 0)).toThrow('whose turn it is')
    const area = syncTable.acquireScratch(1)
    syncTable.releaseScratch(area)
    expect(() => syncTable.releaseScratch(area)).toThrow('the block that is in it')
  })

  test('throws for more blocks than have entries', () => {
    expect(() => setUp(1, 33)).toThrow('no more blocks are in flight')
  })

  test('delivers in block order, and gives a free worker what piled up', async () => {
    const { notes, running, settle } = setUp(2, 5)
    expect(running()).toEqual(['0', '1'])
    await settle('1', lost)
    expect(notes).toEqual([])
    expect(running()).toEqual(['0', '2,3,4'])
    await settle('0', lost)
    expect(notes).toEqual(['0 lost', '1 lost'])
  })

  test('retries the blocks of a failed batch alone, after all others were called back', async () => {
    const { syncTable, notes, running, settle, fail } = setUp(2, 4)
    await settle('0', lost)
    expect(running()).toEqual(['1', '2,3'])
    syncTable.acquireScratch(2)
    await fail('2,3')
    expect([syncTable.round(), ...running()]).toEqual([1, '1'])
    await settle('1', { outcome: 'retry' })
    expect(syncTable.working()).toEqual([])
    expect(running()).toEqual(['1', '2'])
    expect(notes).toEqual(['0 lost', 'failed'])
  })

  test('gives a block up after three failures alone, and passes its turn', async () => {
    const { syncTable, notes, running, fail } = setUp(1, 2)
    for (let attempt = 0; attempt < 3; attempt++) await fail('0')
    expect(notes).toEqual(['failed', 'failed', 'given up', '0 lost'])
    expect(syncTable.turn()).toEqual({ ticket: 1, state: 0 })
    expect(running()).toEqual(['1'])
  })

  test('aborts a worker whose block has the turn for too long, not one that waits', async () => {
    const { syncTable, notes, look } = setUp(2, 2)
    syncTable.acquireScratch(0)
    syncTable.acquireScratch(1)
    await look(hangLooks)
    expect(notes).toEqual([])
    await look(1)
    // Terminating it takes a while.
    await look(1)
    expect(notes).toEqual(['hung 0'])
  })

  test('aborts a worker that stays at a block after its turn, while others continue', async () => {
    const { syncTable, notes, look } = setUp(2, 2)
    syncTable.acquireScratch(0)
    syncTable.acquireScratch(1)
    syncTable.pass(0, 0)
    syncTable.pass(1, 0)
    await look(hangLooks + 1)
    expect(notes).toEqual(['hung 0', 'hung 1'])
  })

  test('does not abort a worker that moves from block to block, however long the batch', async () => {
    const { syncTable, notes, look, settle, running } = setUp(1, 5)
    syncTable.pass(0, 0)
    await settle('0', lost)
    expect(running()).toEqual(['1,2,3,4'])
    for (const ticket of [1, 2, 3, 4]) {
      const area = syncTable.acquireScratch(ticket)
      await look(hangLooks - 1)
      syncTable.pass(ticket, 0)
      syncTable.releaseScratch(area)
    }
    expect(notes).toEqual(['0 lost'])
  })

  test('aborts a worker that never starts, after the longer start timeout', async () => {
    const { notes, look } = setUp(2, 2)
    await look(startLooks)
    expect(notes).toEqual([])
    await look(1)
    expect(notes).toEqual(['hung 0', 'hung 1'])
  })
})
