import { expect, test } from 'vitest'
import { initialOf } from '../../../../src/base/fields.ts'
import { type Config, configFields } from '../../../../src/operator/config/config.ts'
import { memoryBoundsOf } from '../../../../src/operator/topology/memory-bounds.ts'
import { topology } from '../../../../src/topology.ts'
import { singleNodeSet } from '../../../../src/upstream/config.ts'

const config = initialOf(configFields) as Config
const bytesOf = (changed: Partial<Config>) =>
  memoryBoundsOf(topology, { ...config, ...changed }).bytes

test('every ring, log, hub, queue, cache and process is summed up, or named as not bounded', () => {
  const { bytes, rows, unbounded } = memoryBoundsOf(topology, config)
  expect(bytes).toBe(rows.reduce((sum, row) => sum + row.bytes, 0))
  for (const row of rows) expect(row.bytes, row.name).toBeGreaterThan(0)
  const shown = [...rows.map(({ name }) => name), ...unbounded]
  for (const [component, { owns = [], isEnabled }] of Object.entries(topology))
    for (const { kind, name } of owns)
      if (kind !== 'file' && kind !== 'thread' && (isEnabled?.({ config }) ?? true))
        expect(
          shown.some((text) => text === name || text.startsWith(`${component}: ${name} (`)),
          name,
        ).toBe(true)
  expect(unbounded.join()).toContain('websocket.unsentBytes')
})

test('a disabled component takes no memory, and each further set its own', () => {
  const indexer = { ...config.indexer, enabled: false }
  expect(bytesOf({ indexer })).toBeLessThan(bytesOf({}) - 1e9)
  const more = { ...singleNodeSet({}), cacheBytes: 5e9 }
  expect(bytesOf({ upstreams: { more } })).toBeGreaterThan(bytesOf({}) + 9e9)
  const less = { ...more, cacheBytes: 0 }
  expect(bytesOf({ upstreams: { more } }) - bytesOf({ upstreams: { more: less } })).toBe(5e9)
})
