import { describe, expect, it } from 'vitest'
import { SyncTable, syncTableBytes } from '../../../../src/streams/analysis/sync-table.ts'
import { HangWatch, lookMs } from '../../../../src/streams/flows/hang-watch.ts'

const hangLooks = 2000 / lookMs
const startLooks = 10_000 / lookMs

function setUp() {
  const memory = { buffer: new SharedArrayBuffer(syncTableBytes) }
  const syncTable = new SyncTable({ memory, syncTable: 0, workers: 2 })
  const watch = new HangWatch<{ tickets: number[] }>(syncTable)
  const first = { tickets: [0, 2] }
  const second = { tickets: [1, 3] }
  const look = () => watch.look([first, second])
  return { syncTable, first, second, look }
}

function times(count: number, look: () => unknown[]): unknown[] {
  let last: unknown[] = []
  for (let at = 0; at < count; at++) last = look()
  return last
}

describe('hang watch', () => {
  it('reports a worker whose block has the turn for too long, not one that waits', () => {
    const { syncTable, first, look } = setUp()
    syncTable.acquireScratch(0)
    syncTable.acquireScratch(1)
    expect(times(hangLooks, look)).toEqual([])
    expect(look()).toEqual([first])
    // It is reported once; terminating it takes a while.
    expect(look()).toEqual([])
  })

  it('reports a worker that stays at a block after its turn, while others continue', () => {
    const { syncTable, first, second, look } = setUp()
    syncTable.acquireScratch(0)
    syncTable.acquireScratch(1)
    syncTable.pass(0, 0)
    syncTable.pass(1, 0)
    expect(times(hangLooks + 1, look)).toEqual([first, second])
  })

  it('does not report a worker that moves from block to block, however long the batch', () => {
    const { syncTable, look } = setUp()
    const area = syncTable.acquireScratch(0)
    for (const ticket of [0, 1, 2, 3]) {
      expect(times(hangLooks - 1, look)).toEqual([])
      syncTable.releaseScratch(area)
      syncTable.acquireScratch(ticket + 1)
      syncTable.pass(ticket, 0)
    }
  })

  it('reports a worker that never starts, after the longer start timeout', () => {
    const { first, second, look } = setUp()
    expect(times(startLooks, look)).toEqual([])
    expect(look()).toEqual([first, second])
  })
})
