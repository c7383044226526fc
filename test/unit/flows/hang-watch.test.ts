import { describe, expect, it } from 'vitest'
import { Board, boardBytes } from '../../../src/analysis/board.ts'
import { HangWatch, lookMs } from '../../../src/flows/hang-watch.ts'

const hangLooks = 2000 / lookMs
const startLooks = 10_000 / lookMs

function setUp() {
  const memory = { buffer: new SharedArrayBuffer(boardBytes) }
  const board = new Board({ memory, board: 0, workers: 2 })
  const watch = new HangWatch<{ tickets: number[] }>(board)
  const first = { tickets: [0, 2] }
  const second = { tickets: [1, 3] }
  const look = () => watch.look([first, second])
  return { board, first, second, look }
}

function times(count: number, look: () => unknown[]): unknown[] {
  let last: unknown[] = []
  for (let at = 0; at < count; at++) last = look()
  return last
}

describe('hang watch', () => {
  it('reports a worker whose block has the turn for too long, not one that waits', () => {
    const { board, first, look } = setUp()
    board.takeScratch(0)
    board.takeScratch(1)
    expect(times(hangLooks, look)).toEqual([])
    expect(look()).toEqual([first])
    // It is reported once; terminating it takes a while.
    expect(look()).toEqual([])
  })

  it('reports a worker that stays at a block after its turn, while others continue', () => {
    const { board, first, second, look } = setUp()
    board.takeScratch(0)
    board.takeScratch(1)
    board.pass(0, 0)
    board.pass(1, 0)
    expect(times(hangLooks + 1, look)).toEqual([first, second])
  })

  it('does not report a worker that moves from block to block, however long the batch', () => {
    const { board, look } = setUp()
    const area = board.takeScratch(0)
    for (const ticket of [0, 1, 2, 3]) {
      expect(times(hangLooks - 1, look)).toEqual([])
      board.giveScratch(area)
      board.takeScratch(ticket + 1)
      board.pass(ticket, 0)
    }
  })

  it('reports a worker that never starts, after the longer start timeout', () => {
    const { first, second, look } = setUp()
    expect(times(startLooks, look)).toEqual([])
    expect(look()).toEqual([first, second])
  })
})
