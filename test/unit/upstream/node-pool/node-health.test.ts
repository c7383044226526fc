import { beforeEach, describe, expect, test } from 'vitest'
import {
  isNodeFault,
  NodeHealth,
  type NodeState,
} from '../../../../src/upstream/node-pool/node-health.ts'
import { FakeClock } from '../../../testkit/fake-senders.ts'

let clock: FakeClock
let health: NodeHealth
let moves: NodeState[]

beforeEach(() => {
  clock = new FakeClock()
  moves = []
  health = new NodeHealth(clock, (state) => moves.push(state))
})

const answered = { isBehind: false }

function fail(times: number): void {
  for (let time = 0; time < times; time++) health.callFailed('status')
}

describe('probes', () => {
  test('the first one that is answered brings a node up', () => {
    expect(health.state).toBe('probing')
    health.probeAnswered(answered)
    health.probeAnswered(answered)
    expect(moves).toEqual(['up'])
  })

  test('a node that is late is doubtful, one that stays silent is down, one answer brings it back', () => {
    health.probeAnswered(answered)
    health.probeOverdue()
    expect(health.state).toBe('probing')
    health.probeSilent()
    expect(health.state).toBe('down')
    health.probeAnswered(answered)
    expect(moves).toEqual(['up', 'probing', 'down', 'up'])
  })

  test('an answered call clears failures, but not a silence that was judged', () => {
    health.probeAnswered(answered)
    health.probeOverdue()
    health.callAnswered()
    expect(health.state).toBe('up')
    health.probeSilent()
    health.callAnswered()
    expect(health.state).toBe('down')
  })

  test('a refused connection is down at once, another failure only the second time', () => {
    health.probeAnswered(answered)
    health.probeFailed('broken')
    expect(health.state).toBe('probing')
    health.probeFailed('broken')
    expect(health.state).toBe('down')
    health.probeAnswered(answered)
    expect(health.state).toBe('up')
    health.probeFailed('unreached')
    expect(health.state).toBe('down')
  })

  test('a lag that the node reports itself counts like a measured one', () => {
    health.probeAnswered({ isBehind: true })
    expect(health.state).toBe('lagging')
    health.probeAnswered(answered)
    expect(health.state).toBe('up')
  })
})

describe('lag', () => {
  test('leaves above the limit and returns at half of it', () => {
    health.probeAnswered(answered)
    health.setLag(50, 50)
    expect(health.state).toBe('up')
    health.setLag(51, 50)
    expect(health.state).toBe('lagging')
    health.setLag(26, 50)
    expect(health.state).toBe('lagging')
    health.setLag(25, 50)
    expect(health.state).toBe('up')
    health.setLag(50, 50)
    expect(moves).toEqual(['up', 'lagging', 'up'])
  })
})

describe('the breaker', () => {
  beforeEach(() => health.probeAnswered(answered))

  test('opens after five failures in a row, not when an answer is between them', () => {
    fail(4)
    health.callAnswered()
    fail(4)
    expect(health.state).toBe('up')
    fail(1)
    expect(health.state).toBe('down')
  })

  test('opens at once for a refused connection', () => {
    health.callFailed('unreached')
    expect(health.state).toBe('down')
  })

  test('does not count calls that were given up or never sent', () => {
    expect((['left', 'busy', 'aborted'] as const).filter(isNodeFault)).toEqual([])
    expect((['unreached', 'broken', 'timeout'] as const).filter(isNodeFault)).toHaveLength(3)
  })

  test('is half-open after the back-off: a few trial calls decide, although probes succeed', () => {
    fail(5)
    health.probeAnswered(answered)
    expect(health.state).toBe('down')
    clock.ms += 1_000
    health.probeAnswered(answered)
    expect(health.state).toBe('probing')
    expect(health.isHalfOpen).toBe(true)
    health.callAnswered()
    health.callAnswered()
    expect(health.state).toBe('probing')
    health.callAnswered()
    expect(health.state).toBe('up')
    expect(health.isHalfOpen).toBe(false)
  })

  test('closes by probes alone where there is no traffic', () => {
    fail(5)
    clock.ms += 1_000
    for (let probe = 0; probe < 3; probe++) {
      health.probeAnswered(answered)
      expect(health.state).toBe('probing')
    }
    health.probeAnswered(answered)
    expect(health.state).toBe('up')
  })

  test('is back with its first probe when it was gone meanwhile', () => {
    fail(5)
    health.probeFailed('unreached')
    health.probeAnswered(answered)
    expect(health.state).toBe('up')
  })

  test('backs off twice as long after each failed trial, with jitter, up to a bound', () => {
    fail(5)
    let backoffMs = 1_000
    for (let time = 0; time < 8; time++) {
      clock.ms += backoffMs / 2 - 1
      health.probeAnswered(answered)
      expect(health.state).toBe('down')
      clock.ms += backoffMs / 2 + 1
      health.probeAnswered(answered)
      expect(health.state).toBe('probing')
      health.callFailed('timeout')
      expect(health.state).toBe('down')
      backoffMs = Math.min(backoffMs * 2, 15_000)
    }
  })
})

test('a node that came back gets its share step by step', () => {
  health.probeAnswered(answered)
  expect(health.slowStart()).toBe(1)
  health.probeSilent()
  health.probeAnswered(answered)
  expect(health.slowStart()).toBe(0.1)
  clock.ms += 1_500
  expect(health.slowStart()).toBe(0.5)
  clock.ms += 1_500
  expect(health.slowStart()).toBe(1)
})
