import { expect, test } from 'vitest'
import { ExpositionText } from '../../../../src/client/exposition-text.ts'
import { statusText } from '../../../../src/operator/commands/status.ts'

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
const endpoint = { host: '127.0.0.1', port: 7, tls: false }
const facts = { version: '1', pid: 7, uptimeSecs: 3_725, sources: { 'chain.source': 'embedded' } }

function linesOf(text: string, start: string): string[] {
  const lines = text.split('\n')
  return lines.slice(lines.findIndex((line) => line.startsWith(start)))
}

test('status shows every node: state, slot, lag, percentiles, errors, share of traffic', () => {
  const silent = {
    ...node,
    name: 'own/1',
    region: '',
    slot: null,
    p50Ms: null,
    state: 'down',
    reason: 'ECONNREFUSED',
  }
  const geyser = { default: { nodes: { [node.name]: { firstShare: 0.6 } } } }
  const text = statusText({ ...facts, upstreams: [node, silent], geyser }, null)
  const lines = linesOf(text, 'NODE')
  expect(lines[0]?.split(/ {2,}/)).toEqual(
    'NODE REGION STATE SLOT LAG P50 P99 CALLS ERRORS SHARE FIRST REASON'.split(' '),
  )
  expect(lines[1]).toMatch(
    /^default\/1 +fra +up +900 +0 +1\.26 ms +8 ms +12 +1 +75\.0 % +60\.0 % +-$/,
  )
  expect(lines[2]).toMatch(/^own\/1 +- +down +- +0 +- +8 ms.* ECONNREFUSED$/)
  expect(statusText({ ...facts, upstreams: [] }, null)).not.toContain('NODE')
})

test('status shows state, rate, errors, refusals and lag of every product', () => {
  const before = new ExpositionText('sluice_rpc_requests_total{method="a",outcome="ok"} 10\n')
  const now = new ExpositionText(`# HELP sluice_rpc_requests_total calls
sluice_rpc_requests_total{method="a",outcome="ok"} 30
sluice_rpc_requests_total{method="b",outcome="error"} 4
sluice_auth_refused_total{door="rpc"} 2
sluice_quota_refused_total{door="rpc"} 1
sluice_auth_refused_total{door="grpc"} 9
sluice_upstream_up{set="default",node="1"} 1
sluice_upstream_lag_slots{set="default",node="1"} 3
sluice_metrics_open 0
sluice_source_event_age_seconds 31.25
sluice_index_queries_total{outcome="OK"} 5
sluice_index_queries_total{outcome="TIMEOUT_EXCEEDED"} 2
sluice_index_lag_seconds 0.4
`)
  const doors = { rpc: endpoint, metrics: { ...endpoint, host: '::1' }, indexer: endpoint }
  const text = statusText({ ...facts, doors }, { before, now, seconds: 2 })
  expect(text).toMatch(/^server: +1, process 7, up 1 h 2 min$/m)
  expect(text).toMatch(/^sources: +chain\.source embedded$/m)
  expect(text).toMatch(/^rpc +open +127\.0\.0\.1:7 +12 calls\/s +4 +3 +- +3 slots$/m)
  expect(text).toMatch(
    /^metrics +closed: its source is silent +\[::1\]:7 +0 frames\/s .* 31\.3 s$/m,
  )
  expect(text).toMatch(/^indexer +open +127\.0\.0\.1:7 +3\.5 queries\/s +2 +0 +0 +0\.4 s$/m)
  expect(text).toMatch(/^grpc +disabled/m)
})

test('status shows the stream of every set: its nodes and the measured slot time', () => {
  const nodes = { 'default/1': { isOpen: true }, 'default/2': { isOpen: false } }
  const geyser = {
    default: {
      node: 'default/1',
      nodes: { ...nodes, 'default/3': { isOpen: true } },
      slotMs: 203.4,
    },
    own: { node: null, slotMs: 400 },
  }
  const text = statusText({ ...facts, geyser }, null)
  expect(text).toMatch(
    /^streams: +default from default\/1, default\/3, slots of 203 ms; own from no node, .* 400 ms$/m,
  )
  expect(statusText(facts, null)).not.toContain('streams:')
})

test('status shows addresses alone when the server does not report its meters', () => {
  expect(statusText({ ...facts, doors: { rpc: endpoint } }, null)).toMatch(
    /^rpc +open +127\.0\.0\.1:7/m,
  )
})
