import { beforeEach, describe, expect, test } from 'vitest'
import { SetHead, slotMsMin } from '../../../../src/upstream/node-pool/upstream-set.ts'
import { FakeClock } from '../../../testkit/fake-senders.ts'

const far = 4_000_000_000
let clock: FakeClock
let head: SetHead

beforeEach(() => {
  clock = new FakeClock()
  head = new SetHead(clock, false)
})

describe('the head of a set', () => {
  test('is the second-highest slot of three or more nodes', () => {
    expect(head.of([100, far, 102])).toBe(102)
    expect(head.of([100, 1, 102, 101])).toBe(101)
  })

  test('of two nodes is the highest that the time since the last head explains', () => {
    expect(head.of([100, 110])).toBe(110)
    clock.ms += 400
    expect(head.of([101, far])).toBe(101)
    expect(head.of([101, 110 + 400 / slotMsMin])).toBe(110 + 400 / slotMsMin)
  })

  test('does not follow one node that goes on and on with small jumps', () => {
    head.of([100, 100])
    for (let jump = 1; jump <= 50; jump++) {
      clock.ms += 1
      head.of([100, 100 + jump * 50])
    }
    expect(head.limit()).toBeLessThanOrEqual(105)
  })

  test('accepts a jump that two nodes make, and one of a node that is the only one of its set', () => {
    head.of([100, 100])
    expect(head.of([far, far + 1])).toBe(far)
    const single = new SetHead(clock, true)
    single.of([100])
    expect(single.of([far])).toBe(far)
  })

  test('stays where it was while the only reachable node of several has jumped', () => {
    head.of([100, 101])
    expect(head.of([far])).toBe(101)
  })

  test('lets the better node of two return, although the other was the head meanwhile', () => {
    head.of([1_000, 2_000])
    expect(head.of([1_000])).toBe(1_000)
    clock.ms += 400
    expect(head.of([1_001, 2_001])).toBe(2_001)
  })

  test('goes back with the nodes, is absent without them, and begins anew', () => {
    head.of([1_000, 1_000])
    expect(head.of([900, 890])).toBe(900)
    expect(head.of([])).toBeNull()
    head.reset()
    expect(head.of([far])).toBe(far)
  })
})
