// Lifecycle of a destination on a fake clock: challenges, proof, failure, pauses.
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { accept, refuse } from '../../../../src/base/errors.ts'
import { silentLog } from '../../../../src/base/telemetry/log.ts'
import type {
  Destination,
  Subscription,
} from '../../../../src/customers/subscriptions/subscription.ts'
import { Destinations } from '../../../../src/products/shredstream/destinations.ts'
import { SharedStats } from '../../../../src/products/shredstream/shared-stats.ts'
import { Caps } from '../../../../src/products/shredstream/target-tracker.ts'
import { challengeOf, TargetTable } from '../../../../src/products/shredstream/targets.ts'

// Without jitter.
beforeEach(() => void vi.spyOn(Math, 'random').mockReturnValue(1))
afterEach(() => vi.restoreAllMocks())

function open(destination: Destination | null) {
  let nowMs = 0
  let watcher: (subscription: Subscription) => void = () => {}
  const calls: string[] = []
  let isFull = false
  const write = (call: string) => {
    calls.push(call)
    if (isFull) throw new Error('No space left on device')
  }
  // Reason for the cast: only these fields are read.
  let subscription = {
    id: 'a',
    label: 'a',
    state: 'active',
    products: ['shredstream'],
    destination,
  } as unknown as Subscription
  const table = new TargetTable()
  const destinations = new Destinations({
    directory: {
      subscriptions: () => [subscription],
      watch(added) {
        watcher = added
        return () => {}
      },
      refresh: () => watcher(subscription),
    },
    store: {
      confirmDestination(ref, _, address) {
        write(`confirm ${ref}`)
        if (address !== subscription.destination?.address) return otherAddress
        subscription = {
          ...subscription,
          destination: { address, state: 'active', standing: null },
        }
        return accept(subscription)
      },
      failDestination(ref, _, address) {
        write(`fail ${ref}`)
        if (address !== subscription.destination?.address) return otherAddress
        subscription = {
          ...subscription,
          destination: { ...subscription.destination!, state: 'failed' },
        }
        return accept(subscription)
      },
    },
    table,
    stats: new SharedStats(),
    clock: { nowMs: () => nowMs, monotonicMs: () => nowMs },
    log: silentLog,
    ownPorts: () => [20_000],
  })
  destinations.start()
  destinations.stop()
  /** Changes the registry, which the directory has not read yet. */
  const changeUnseen = (next: Partial<Subscription>) => {
    subscription = { ...subscription, ...next } as Subscription
  }
  const change = (next: Partial<Subscription>) => {
    changeUnseen(next)
    watcher(subscription)
  }
  const tick = (ms: number) => {
    nowMs += ms
    destinations.tick()
  }
  const served = () => table.read()!.filter(({ kind }) => kind === 'serve')
  const challenged = () => table.read()!.filter(({ kind }) => kind === 'challenge')
  const probed = () => table.read()!.filter(({ kind }) => kind === 'probe')
  const fillDisk = (full: boolean) => {
    isFull = full
  }
  const parts = { destinations, calls, change, changeUnseen, tick }
  return { ...parts, served, challenged, probed, fillDisk }
}

const otherAddress = refuse('rejected', 'destination-state', 'another destination')
const pending = (standing: string | null, address = '10.0.0.1:5000'): Destination => ({
  address,
  state: 'pending',
  standing,
})
const active: Destination = { address: '10.0.0.1:5000', state: 'active', standing: null }

describe('a destination', () => {
  test('is challenged once a second, ten times, then failed', () => {
    const { tick, challenged, served, calls } = open(pending(null))
    tick(0)
    for (let second = 1; second <= 10; second += 1) {
      expect(challenged()[0]).toMatchObject({ challenges: second, port: 5000 })
      expect(served()).toEqual([])
      tick(999)
      expect(challenged()[0]!.challenges).toBe(second)
      tick(1)
    }
    expect(calls).toEqual(['fail a'])
    expect(challenged()).toEqual([])
  })

  test('is proven by the echo of its own challenge; the old address is served until then', () => {
    const { tick, destinations, challenged, served, calls } = open(pending('10.0.0.9:6000'))
    tick(0)
    expect(served()).toMatchObject([{ port: 6000 }])
    const { row, generation, nonce } = challenged()[0]!
    expect(String(challengeOf({ nonce }))).toMatch(/^SLUICE1 [0-9a-f]{32}$/)
    destinations.onWorkerEvent({ kind: 'echo', row, generation: generation + 1 })
    expect(calls).toEqual([])
    destinations.onWorkerEvent({ kind: 'echo', row, generation })
    expect(calls).toEqual(['confirm a'])
    expect(served()).toMatchObject([{ port: 5000, row }])
    expect(challenged()).toEqual([])
  })

  test('that replaced another one is not proven by the echo of that one', () => {
    const { tick, destinations, changeUnseen, challenged, served, calls } = open(pending(null))
    tick(0)
    const { row, generation } = challenged()[0]!
    changeUnseen({ destination: pending(null, '10.0.0.2:7000') })
    destinations.onWorkerEvent({ kind: 'echo', row, generation })
    expect(calls).toEqual(['confirm a'])
    expect(served()).toEqual([])
    tick(0)
    expect(challenged()).toMatchObject([{ port: 7000, challenges: 1 }])
  })

  test('that replaced another one is challenged itself when that one did not answer', () => {
    const { tick, changeUnseen, challenged, calls } = open(pending(null))
    for (let second = 0; second < 10; second += 1) tick(1000)
    changeUnseen({ destination: pending(null, '10.0.0.2:7000') })
    tick(1000)
    expect(calls).toEqual(['fail a'])
    tick(0)
    expect(challenged()).toMatchObject([{ port: 7000, challenges: 1 }])
  })

  test('whose port is closed is paused, with back-off to a minute, reset after recovery', () => {
    const { tick, destinations, served } = open(active)
    const pauses: number[] = []
    for (let round = 0; round < 10; round += 1) {
      const { row, generation } = served()[0]!
      destinations.onWorkerEvent({ kind: 'refused', row, generation })
      let pausedMs = 0
      while (served().length === 0) {
        tick(250)
        pausedMs += 250
      }
      pauses.push(pausedMs)
    }
    expect(pauses.slice(0, 4)).toEqual([250, 500, 1000, 2000])
    expect(pauses.at(-1)).toBe(60_000)
    tick(10_000)
    const { row, generation } = served()[0]!
    destinations.onWorkerEvent({ kind: 'refused', row, generation })
    expect(destinations.counts()).toEqual({ active: 0, pending: 0, unreachable: 1 })
    tick(250)
    expect(served().length).toBe(1)
  })

  test('that is paused is probed, and resumed as soon as a probe meets no error', () => {
    const { tick, destinations, served, probed } = open(active)
    const { row, generation } = served()[0]!
    const emit = (kind: 'refused' | 'alive') =>
      destinations.onWorkerEvent({ kind, row, generation })
    for (let round = 0; round < 10; round += 1) {
      emit('refused')
      expect([served().length, probed().length]).toEqual([0, 1])
      tick(60_000)
      expect([served().length, probed().length]).toEqual([1, 0])
    }
    emit('refused')
    tick(1000)
    expect(probed()).toMatchObject([{ row, generation, port: 5000 }])
    emit('alive')
    expect([served().length, probed().length]).toEqual([1, 0])
    expect(destinations.counts()).toEqual({ active: 1, pending: 0, unreachable: 0 })
    // A late event changes nothing.
    emit('alive')
    expect(served().length).toBe(1)
  })

  test('that is proven while the disk is full is served once the registry can be written', () => {
    const { tick, destinations, challenged, served, calls, fillDisk } = open(pending(null))
    tick(0)
    fillDisk(true)
    const { row, generation } = challenged()[0]!
    destinations.onWorkerEvent({ kind: 'echo', row, generation })
    for (let second = 0; second < 60; second += 1) tick(1000)
    expect(new Set(calls)).toEqual(new Set(['confirm a']))
    expect(served()).toEqual([])
    fillDisk(false)
    tick(10_000)
    expect(served()).toMatchObject([{ port: 5000, row }])
    const writes = calls.length
    tick(60_000)
    expect(calls.length).toBe(writes)
  })

  test('that is not proven while the disk is full fails once the registry can be written', () => {
    const { tick, challenged, calls, fillDisk } = open(pending(null))
    fillDisk(true)
    for (let second = 0; second < 60; second += 1) tick(1000)
    expect(challenged()[0]!.challenges).toBe(10)
    expect(new Set(calls)).toEqual(new Set(['fail a']))
    fillDisk(false)
    tick(10_000)
    expect(challenged()).toEqual([])
  })

  test('that is removed while the disk is full is no longer written', () => {
    const { tick, destinations, challenged, change, calls, fillDisk } = open(pending(null))
    tick(0)
    fillDisk(true)
    const { row, generation } = challenged()[0]!
    destinations.onWorkerEvent({ kind: 'echo', row, generation })
    change({ destination: null })
    fillDisk(false)
    tick(60_000)
    expect(calls).toEqual(['confirm a'])
  })

  test('of a subscription that is suspended, ended or paused receives nothing', () => {
    const { change, served } = open(active)
    expect(served().length).toBe(1)
    change({ state: 'suspended' })
    expect(served()).toEqual([])
    change({ state: 'active' })
    expect(served().length).toBe(1)
    change({ destination: { ...active, state: 'paused' } })
    expect(served()).toEqual([])
    change({ destination: active, products: ['bundle'] })
    expect(served()).toEqual([])
  })

  test('is never our own port on this machine', () => {
    const { served, change } = open({ ...active, address: '127.0.0.1:20000' })
    expect(served()).toEqual([])
    change({ destination: { ...active, address: '127.0.0.1:20002' } })
    expect(served().length).toBe(1)
  })
})

describe('caps', () => {
  test('limit a destination to its rate over time and do not affect others', () => {
    const caps = new Caps({ packetsPerSecond: 1000, bytesPerSecond: 1e9 }, 4)
    let sent = 0
    for (let ms = 1; ms <= 10_000; ms += 1) {
      caps.charge([0], 4, 4800, ms)
      if (!caps.isMuted(0)) sent += 4
    }
    // A burst of one second's budget, then 1,000 a second.
    expect(sent).toBeGreaterThan(10_500)
    expect(sent).toBeLessThanOrEqual(11_000)
    caps.charge([0, 1], 4, 4800, 10_001)
    expect(caps.isMuted(1)).toBe(false)
  })
})
