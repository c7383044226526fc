// The loop on plain sockets: a failure in its chores is noted, and the chores go on.
import { expect, test } from 'vitest'
import { parseAddress } from '../../../../src/base/cidr.ts'
import { Board } from '../../../../src/products/shredstream/board.ts'
import { TargetBook } from '../../../../src/products/shredstream/book.ts'
import { DgramLoop } from '../../../../src/products/shredstream/dgram-loop.ts'
import type { ShredParts, WorkerSettings } from '../../../../src/products/shredstream/handle.ts'
import { challengeOf, TargetTable } from '../../../../src/products/shredstream/targets.ts'
import { until } from '../../../support/until.ts'

test('chores that fail once are done again, and the new targets come into force', async () => {
  const board = new Board()
  const table = new TargetTable()
  const notes: string[] = []
  let failures = 0
  const book = new (class extends TargetBook {
    override settle() {
      failures += 1
      if (failures === 1) throw new Error('no descriptors left')
      super.settle()
    }
  })(table, board, () => {})
  // Reason for the casts: without packets nothing else of the two is looked at.
  const parts = {
    board,
    book,
    nowMs: () => performance.now(),
    challengeOf,
    note: (text: string) => void notes.push(text),
  } as unknown as ShredParts
  const settings = {
    host: '127.0.0.1',
    port: 0,
    sourceHosts: ['127.0.0.1'],
    sourcePort: 0,
    bufferBytes: 65_536,
    caps: { packetsPerSecond: 1000, bytesPerSecond: 1e6 },
  } as unknown as WorkerSettings
  const loop = new DgramLoop(parts, settings)
  let isStopped = false
  // Nothing to follow yet: the failure comes in the chores and not while it opens.
  book.refresh()
  await loop.open()
  const running = loop.run(() => isStopped)
  table.write([
    {
      row: 0,
      kind: 'serve',
      generation: 1,
      address: parseAddress('127.0.0.1')!,
      port: 9,
      challenges: 0,
      nonce: [0, 0, 0, 0],
    },
  ])
  try {
    await until(() => board.sockets.get(0, 'tableVersion') === table.version, 'targets in force')
  } finally {
    isStopped = true
    await running
  }
  expect(failures).toBe(2)
  expect(notes).toEqual(['shred chores failed: no descriptors left'])
})
