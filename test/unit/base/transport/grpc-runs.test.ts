// What goes between the main thread and the one of a gRPC endpoint.
import { expect, test } from 'vitest'
import { Outbox } from '../../../../src/base/transport/grpc-thread.ts'
import {
  type GrpcThreadBatch,
  runsOf,
  StreamBytes,
} from '../../../../src/base/transport/grpc-thread-calls.ts'

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

test('the bytes of a block are posted once, for all that are written in a turn', async () => {
  const batches: GrpcThreadBatch[] = []
  const outbox = new Outbox((batch) => batches.push(batch))
  const block = Buffer.alloc(4_000_000)
  for (let id = 1; id <= 100; id++) {
    outbox.write(id, Buffer.alloc(50), undefined)
    outbox.write(id, block, undefined)
  }
  await Promise.resolve()
  expect(batches).toHaveLength(1)
  expect(batches[0]!.frames.byteLength).toBe(4_005_000)
  // What is not shared does not gather without a bound.
  for (let id = 1; id <= 100; id++) outbox.write(id, Buffer.alloc(1_000_000), undefined)
  await Promise.resolve()
  const sizes = batches.slice(1).map(({ frames }) => frames.byteLength)
  expect(sizes.reduce((sum, size) => sum + size, 0)).toBe(100_000_000)
  expect(Math.max(...sizes)).toBe(8_000_000)
})

test('the main thread is told once all is taken, and not while more is under way', () => {
  const main = new StreamBytes()
  const thread = new StreamBytes(main.words)
  expect(main.write(100)).toBe(true)
  expect(main.write(300_000)).toBe(false)
  expect(thread.take(100)).toBe(false)
  expect(main.unsent).toBe(300_000)
  expect(thread.take(300_000)).toBe(true)
  expect(main.unsent).toBe(0)
  // Nobody waits for these.
  main.write(100)
  expect(thread.take(100)).toBe(false)
  for (let gigabytes = 0; gigabytes < 9; gigabytes++) {
    main.write(1e9)
    expect(thread.take(1e9)).toBe(true)
  }
})
