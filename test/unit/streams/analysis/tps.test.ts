import { describe, expect, test } from 'vitest'
import { Tps } from '../../../../src/streams/analysis/block-stages.ts'

function values(blocks: readonly (readonly [number: number, txns: number])[]): number[] {
  const tps = new Tps()
  return blocks.map(([number, txns]) => {
    const value = tps.start(number)
    tps.complete(txns)
    return value
  })
}

describe('TPS', () => {
  test('is 0 at the first BlockStart and covers 2.5 blocks, the newest halved', () => {
    expect(
      values([
        [1, 11],
        [2, 20],
        [3, 30],
        [4, 41],
        [5, 0],
      ]),
    ).toEqual([0, 5, 11 + 10, 11 + 20 + 15, 20 + 30 + 20])
  })

  test('counts missing blocks as 0', () => {
    expect(
      values([
        [1, 10],
        [2, 10],
        [4, 10],
        [5, 10],
        [50, 10],
        [51, 10],
      ]),
    ).toEqual([0, 5, 20, 15, 0, 5])
  })

  test('counts competing proposals of one number as separate blocks', () => {
    expect(
      values([
        [1, 10],
        [2, 20],
        [2, 30],
        [3, 40],
      ]),
    ).toEqual([0, 5, 20, 45])
  })
})
