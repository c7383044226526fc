import { expect, test } from 'vitest'
import { statusText } from '../../../src/commands/status.ts'

const node = {
  name: 'default/1',
  region: 'fra',
  state: 'up',
  ways: ['rpc'],
  slot: 900,
  finalizedSlot: 868,
  lagSlots: 0,
  p50Ms: 1.26,
  p99Ms: 8,
  requests: 12,
  errors: 1,
  share: 0.75,
  waiting: 0,
}

test('status shows every node: state, slot, lag, percentiles, errors, share of traffic', () => {
  const silent = { ...node, name: 'own/1', region: '', slot: null, p50Ms: null, state: 'down' }
  const text = statusText({ pid: 7, upstreams: [node, silent] })
  const lines = text.split('\n')
  expect(lines[0]).toBe('pid:  7')
  expect(lines[2]?.split(/ {2,}/)).toEqual(
    'NODE REGION STATE SLOT LAG P50 P99 CALLS ERRORS SHARE'.split(' '),
  )
  expect(lines[3]).toMatch(/^default\/1 +fra +up +900 +0 +1\.26 ms +8 ms +12 +1 +75\.0 %$/)
  expect(lines[4]).toMatch(/^own\/1 +- +down +- +0 +- +8 ms/)
})

test('status without nodes shows no table', () => {
  expect(statusText({ pid: 7, upstreams: [] })).toBe('pid:  7')
  expect(statusText({ pid: 7 })).toBe('pid:  7')
})
