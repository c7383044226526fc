// Registry changes that fail on a full disk: kept, retried, logged at a limited rate.
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { Fault } from '../../../../src/base/errors.ts'
import { silentLog } from '../../../../src/base/telemetry/log.ts'
import { RegistryChanges } from '../../../../src/products/shredstream/destinations.ts'

// Without jitter.
beforeEach(() => void vi.spyOn(Math, 'random').mockReturnValue(1))
afterEach(() => vi.restoreAllMocks())

function open() {
  let nowMs = 0
  const logged: number[] = []
  const changes = new RegistryChanges({
    clock: { nowMs: () => nowMs, monotonicMs: () => nowMs },
    log: { ...silentLog, error: () => void logged.push(nowMs) },
  })
  const tick = (ms: number) => {
    nowMs += ms
    changes.tick()
  }
  return { changes, tick, logged, now: () => nowMs }
}

test('a failed change is retried with back-off until it succeeds, and then no more', () => {
  const { changes, tick, now } = open()
  const tries: number[] = []
  let isFull = true
  changes.make('a', () => {
    tries.push(now())
    if (isFull) throw new Error('No space left on device')
  })
  for (let round = 0; round < 2400; round += 1) tick(50)
  const gaps = tries.slice(1).map((at, index) => at - tries[index]!)
  expect(gaps.slice(0, 4)).toEqual([250, 500, 1000, 2000])
  expect(Math.max(...gaps)).toBe(10_000)
  expect(changes.isPending('a')).toBe(true)
  isFull = false
  tick(10_000)
  expect(changes.isPending('a')).toBe(false)
  const made = tries.length
  tick(60_000)
  expect(tries.length).toBe(made)
})

test('a newer change replaces an older one, and a cancelled one is not applied', () => {
  const { changes, tick } = open()
  const made: string[] = []
  const failing = () => {
    throw new Error('EIO')
  }
  changes.make('a', failing)
  changes.make('b', failing)
  changes.make('a', () => void made.push('a'))
  changes.cancel('b')
  tick(60_000)
  expect(made).toEqual(['a'])
  expect([changes.isPending('a'), changes.isPending('b')]).toEqual([false, false])
})

test('many failing changes log at most once a second, and a bug is not swallowed', () => {
  const { changes, tick, logged } = open()
  for (let index = 0; index < 100; index += 1)
    changes.make(`s${index}`, () => {
      throw new Error('No space left on device')
    })
  for (let round = 0; round < 200; round += 1) tick(50)
  expect(logged.length).toBeGreaterThan(1)
  const gaps = logged.slice(1).map((at, index) => at - logged[index]!)
  expect(Math.min(...gaps)).toBeGreaterThanOrEqual(1000)
  expect(() =>
    changes.make('bug', () => {
      throw new TypeError('x is not a function')
    }),
  ).toThrow('x is not a function')
})

test('a change of a cluster is pending until it is answered, and retried when it fails', async () => {
  const { changes, tick } = open()
  let answer = { made: () => {}, fail: (_: Error) => {} }
  let tries = 0
  changes.make('a', () => {
    tries++
    return new Promise<void>((made, fail) => {
      answer = { made, fail }
    })
  })
  tick(60_000)
  expect([tries, changes.isPending('a')]).toEqual([1, true])
  answer.fail(new Fault('cluster', 'away'))
  await Promise.resolve()
  await Promise.resolve()
  tick(60_000)
  expect([tries, changes.isPending('a')]).toEqual([2, true])
  answer.made()
  await Promise.resolve()
  await Promise.resolve()
  expect(changes.isPending('a')).toBe(false)
})
