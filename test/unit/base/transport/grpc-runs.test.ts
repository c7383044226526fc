import { expect, test } from 'vitest'
import { runsOf } from '../../../../src/base/transport/grpc-thread-calls.ts'

test('a stream that does not read keeps at most twice what it was sent', () => {
  const bytes = Buffer.allocUnsafeSlow(1_000_000).map((_, index) => index % 251)
  const writes = [
    [1, 0, 100],
    [2, 100, 600_000],
    [3, 0, 100],
    [1, 600_100, 399_900],
    [2, 600_100, 399_900],
  ]
  const runs = [...runsOf(bytes.buffer as ArrayBuffer, Float64Array.from(writes.flat()))]
  expect(runs.map(({ id }) => id)).toEqual([1, 2, 3, 1, 2])
  for (const [index, [, offset, length]] of writes.entries()) {
    const run = runs[index]!.bytes
    expect(run.equals(bytes.subarray(offset!, offset! + length!))).toBe(true)
    expect(run.buffer.byteLength).toBeLessThanOrEqual(2 * length!)
  }
  // Copied once, whoever gets it.
  expect(runs[0]!.bytes).toBe(runs[2]!.bytes)
})
