// Pauses of the shred worker: how long, and which cause they are counted under.
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, test } from 'vitest'
import type { Libc } from '../../../../src/base/transport/udp-batch.ts'
import { Pauses } from '../../../../src/products/shredstream/batch-loop.ts'
import {
  pauseBoundsMs,
  pauseCauses,
  pausesOf,
  SharedStats,
} from '../../../../src/products/shredstream/shared-stats.ts'

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void
/** Byte of ru_nivcsw in a struct rusage. */
const involuntaryByte = 136

function open() {
  const stats = new SharedStats()
  let switches = 0
  let usage: Uint8Array = new Uint8Array()
  const libc = {
    addressOf(bytes: Uint8Array) {
      usage = bytes
      return 0
    },
    getrusage() {
      new DataView(usage.buffer).setUint32(involuntaryByte, switches, true)
      return 0
    },
  }
  // Reason for the cast: pauses use these two calls only.
  const pauses = new Pauses(libc as unknown as Libc, stats)
  const countOf = (cause: (typeof pauseCauses)[number]) =>
    pausesOf(stats, pauseCauses.indexOf(cause)).counts.reduce((sum, count) => sum + count)
  return { pauses, stats, countOf, preempt: () => switches++ }
}

test('a pause is counted within its bound and added to the sum of its cause', () => {
  const { pauses, stats, countOf } = open()
  pauses.record(1000, 1000.004, false)
  pauses.record(1000, 1000.015, true)
  pauses.record(1000, 1500, true)
  const maintenance = pausesOf(stats, pauseCauses.indexOf('maintenance'))
  expect(pausesOf(stats, pauseCauses.indexOf('forward')).counts[0]).toBe(1)
  expect(maintenance.counts[pauseBoundsMs.indexOf(0.02)]).toBe(1)
  expect(maintenance.counts.at(-1)).toBe(1)
  expect(maintenance.sum).toBeCloseTo(0.500015)
  expect([countOf('gc'), countOf('preempted')]).toEqual([0, 0])
})

test('a long pause in which the kernel ran another thread is preempted', () => {
  const { pauses, countOf, preempt } = open()
  pauses.record(1000, 1000.004, false)
  preempt()
  pauses.record(1001, 1001.004, false)
  expect(countOf('preempted')).toBe(0)
  pauses.record(1002, 1003, false)
  pauses.record(1003, 1004, false)
  expect([countOf('preempted'), countOf('forward')]).toEqual([1, 3])
})

test('a long pause in which the heap became smaller is garbage collection', () => {
  const { pauses, countOf } = open()
  let garbage: unknown[] | null = Array.from({ length: 200_000 }, (_, index) => ({ index }))
  pauses.record(1000, 1000.004, false)
  expect(garbage.length).toBe(200_000)
  garbage = null
  collect()
  pauses.record(1001, 1002, false)
  pauses.record(1002, 1003, false)
  expect([countOf('gc'), countOf('forward')]).toEqual([1, 2])
})
