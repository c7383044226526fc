// The worker's target tracker: what it counts, which echoes it accepts, which events it posts.
import { expect, test } from 'vitest'
import { parseAddress } from '../../../../src/base/cidr.ts'
import { SharedStats } from '../../../../src/products/shredstream/shared-stats.ts'
import {
  TargetTracker,
  type WorkerEvent,
} from '../../../../src/products/shredstream/target-tracker.ts'
import {
  challengeOf,
  type Target,
  TargetTable,
} from '../../../../src/products/shredstream/targets.ts'

const target = (row: number, kind: Target['kind']): Target => ({
  row,
  kind,
  generation: row + 10,
  address: parseAddress(row % 2 === 0 ? '10.0.0.7' : '2001:db8::7')!,
  port: 5000 + row,
  challenges: 1,
  nonce: [1, 2 ** 32 - 1, 0, row],
})

function open(...targets: Target[]) {
  const stats = new SharedStats()
  const table = new TargetTable()
  const events: WorkerEvent[] = []
  const tracker = new TargetTracker(table, stats, (event) => events.push(event))
  table.write(targets)
  return { stats, table, tracker, events }
}

test('the table is read as it was written, once per version', () => {
  const targets = [target(0, 'serve'), target(3, 'challenge'), target(255, 'serve')]
  const { table, tracker } = open(...targets)
  const plain = ({ address: { family, words }, ...rest }: Target) => ({ ...rest, family, words })
  expect(table.read()!.map(plain)).toEqual(targets.map(plain))
  expect(tracker.isStale).toBe(true)
  expect(tracker.refresh()).toBe(true)
  expect(tracker.refresh()).toBe(false)
  expect([tracker.serving.length, tracker.challenged.length]).toEqual([2, 1])
})

test('a target is proven only by its own challenge from its own address', () => {
  const challenged = target(2, 'challenge')
  const { tracker, events } = open(challenged)
  tracker.refresh()
  expect(tracker.dueChallenges().length).toBe(1)
  expect(tracker.dueChallenges().length).toBe(0)
  const { address, port } = challenged
  const bytes = challengeOf(challenged)
  tracker.receiveEcho(address, port + 1, bytes)
  tracker.receiveEcho(parseAddress('10.0.0.8')!, port, bytes)
  tracker.receiveEcho(address, port, Buffer.concat([bytes, Buffer.alloc(1)]))
  tracker.receiveEcho(address, port, challengeOf({ nonce: [0, 0, 0, 0] }))
  expect(events).toEqual([])
  tracker.receiveEcho(address, port, bytes)
  expect(events).toEqual([{ kind: 'echo', row: 2, generation: 12 }])
})

test('failed sends are not counted as sent, and no count ever decreases', () => {
  const { stats, tracker } = open(target(0, 'serve'), target(2, 'serve'))
  tracker.refresh()
  tracker.failed(2, 101, 5)
  expect(stats.totals.get(0, 'sent')).toBe(0)
  tracker.countSent([0, 2], 3, 3600, 1)
  expect(stats.totals.get(0, 'sent')).toBe(3)
  tracker.countSent([0, 2], 3, 3600, 2)
  expect(stats.totals.get(0, 'sent')).toBe(7)
  expect(stats.targets.row(2)).toMatchObject({ packets: 1, droppedError: 5, lastErrno: 101 })
  expect(stats.targets.row(0)).toMatchObject({ packets: 6, bytes: 7200, lastSentMs: 2 })
})

test('a port counts as closed only after several errors over a second', () => {
  const { tracker, events } = open(target(0, 'serve'))
  tracker.refresh()
  const refuse = (times: number, nowMs: number) => {
    for (let round = 0; round < times; round += 1) tracker.refused(0)
    tracker.report(nowMs)
  }
  // Many errors at once, or few over a long time, do not mean a closed port.
  refuse(100, 20_000)
  refuse(1, 20_999)
  expect(events).toEqual([])
  for (let nowMs = 40_000; nowMs < 80_000; nowMs += 4000) refuse(1, nowMs)
  expect(events).toEqual([])
  for (let nowMs = 100_000; nowMs <= 101_000; nowMs += 250) refuse(1, nowMs)
  expect(events).toEqual([{ kind: 'refused', row: 0, generation: 10 }])
  refuse(1, 101_001)
  expect(events.length).toBe(1)
})

test('a paused target is probed once a second; a probe without an error reports it alive', () => {
  const { tracker, events } = open(target(0, 'probe'), target(2, 'serve'))
  tracker.refresh()
  expect(tracker.serving.map(({ row }) => row)).toEqual([2])
  let probes = 0
  const runTo = (fromMs: number, toMs: number, isClosed: boolean) => {
    for (let nowMs = fromMs; nowMs < toMs; nowMs += 10) {
      const due = tracker.dueProbes(nowMs)
      probes += due.length
      if (isClosed && due.length > 0) tracker.refused(0)
      tracker.report(nowMs)
    }
  }
  runTo(0, 10_000, true)
  expect(probes).toBe(10)
  expect(events).toEqual([])
  runTo(10_000, 12_050, false)
  expect(events).toEqual([{ kind: 'alive', row: 0, generation: 10 }])
})
