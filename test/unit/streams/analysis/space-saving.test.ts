import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  addressBytes,
  openProgram,
  type Program,
  storageKeyBytes,
  trackerBytes,
} from '../../../../src/streams/analysis/memory.ts'
import { analysisModule } from '../../../testkit/analysis.ts'

const module = analysisModule()
const trackerAt = 131_072
const keysAt = 1_048_576
const topAt = 524_288

interface Counter {
  readonly key: number
  readonly count: number
  readonly error: number
}

interface Opened {
  readonly program: Program
  readonly bytes: Uint8Array
}

function open(secret: number): Opened {
  const memory = new WebAssembly.Memory({ initial: 64, maximum: 64, shared: true })
  const bytes = new Uint8Array(memory.buffer)
  bytes.fill(secret, 65_536, 65_600)
  return { program: openProgram({ memory, module, syncTable: 65_536 }), bytes }
}

/** A key of the given length; its number is in the last bytes, noise before it. */
function keyOf(value: number, length: number): Uint8Array {
  const key = new Uint8Array(length).fill((value * 101) & 0xff)
  new DataView(key.buffer).setUint32(length - 4, value)
  return key
}

function track(
  { program, bytes }: Opened,
  keys: readonly number[],
  counters: number,
  length: number,
): Counter[] {
  program.formatTracker(trackerAt, counters, length)
  for (const [index, key] of keys.entries()) bytes.set(keyOf(key, length), keysAt + index * length)
  program.feedKeys(trackerAt, keysAt, keys.length, length)
  const count = program.writeTop(trackerAt, counters, topAt)
  const entry = 16 + ((length + 7) & ~7)
  const view = new DataView(bytes.buffer)
  return Array.from({ length: count }, (_, index) => {
    const at = topAt + index * entry
    return {
      key: view.getUint32(at + 16 + length - 4),
      count: Number(view.getBigUint64(at, true)),
      error: Number(view.getBigUint64(at + 8, true)),
    }
  })
}

/** Reference implementation of Space-Saving: a list with linear search. */
function slow(keys: readonly number[], counters: number, length: number): Counter[] {
  // `since` is when a counter reached its count; among equal counts the last one is evicted.
  const held: { key: number; count: number; error: number; since: number }[] = []
  for (const [now, key] of keys.entries()) {
    const known = held.find((counter) => counter.key === key)
    if (known !== undefined) Object.assign(known, { count: known.count + 1, since: now })
    else if (held.length < counters) held.push({ key, count: 1, error: 0, since: now })
    else {
      const least = Math.min(...held.map((counter) => counter.count))
      const victim = held
        .filter((counter) => counter.count === least)
        .reduce((a, b) => (a.since > b.since ? a : b))
      Object.assign(victim, { key, count: least + 1, error: least, since: now })
    }
  }
  return held
    .map(({ key, count, error }) => ({ key, count, error }))
    .sort((a, b) => b.count - a.count || Buffer.compare(keyOf(a.key, length), keyOf(b.key, length)))
}

const opened = open(7)
const streams = fc.array(
  fc.oneof(fc.integer({ min: 0, max: 5 }), fc.integer({ min: 0, max: 60 })),
  { maxLength: 500 },
)
const lengths = fc.constantFrom(addressBytes, storageKeyBytes)

describe('Space-Saving', () => {
  test('equals the slow, obvious version, counters, errors and order', () => {
    fc.assert(
      fc.property(streams, fc.integer({ min: 1, max: 30 }), lengths, (keys, counters, length) => {
        expect(track(opened, keys, counters, length)).toEqual(slow(keys, counters, length))
      }),
      { numRuns: 200 },
    )
  })

  test('keeps its bounds: count - error <= true count <= count, and no frequent key is missing', () => {
    fc.assert(
      fc.property(streams, fc.integer({ min: 1, max: 30 }), (keys, counters) => {
        const found = track(opened, keys, counters, addressBytes)
        const truth = new Map<number, number>()
        for (const key of keys) truth.set(key, (truth.get(key) ?? 0) + 1)
        expect(found.reduce((sum, counter) => sum + counter.count, 0)).toBe(keys.length)
        for (const { key, count, error } of found) {
          expect(count).toBeGreaterThanOrEqual(truth.get(key)!)
          expect(count - error).toBeLessThanOrEqual(truth.get(key)!)
          expect(error).toBeLessThanOrEqual(keys.length / counters)
        }
        for (const [key, count] of truth)
          if (count > keys.length / counters)
            expect(found.some((counter) => counter.key === key)).toBe(true)
      }),
      { numRuns: 100 },
    )
  })

  test('does not depend on the secret of the hash', () => {
    const keys = Array.from({ length: 5000 }, (_, index) => (index * index) % 997)
    const first = track(open(1), keys, 100, storageKeyBytes)
    expect(track(open(250), keys, 100, storageKeyBytes)).toEqual(first)
  })

  test('needs as many bytes as the memory layout reserves', () => {
    for (const counters of [1, 10, 1000, 4096])
      expect(trackerBytes(counters)).toBe(opened.program.trackerBytes(counters))
  })
})
