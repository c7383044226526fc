import { describe, expect, it } from 'vitest'
import { initialOf } from '../../../../src/base/fields.ts'
import {
  type Config,
  checkConfig,
  configFields,
  ownConfig,
  writesIndex,
} from '../../../../src/operator/config/config.ts'

type Changes = { indexer?: object; cluster?: object; tls?: object }

function configOf({ indexer = {}, cluster = {}, tls = {} }: Changes): Config {
  const initial = initialOf(configFields) as Config
  return {
    ...initial,
    indexer: { ...initial.indexer, ...indexer } as Config['indexer'],
    cluster: { ...initial.cluster, ...cluster } as Config['cluster'],
    tls: { ...initial.tls, ...tls } as Config['tls'],
  }
}

describe('who writes the index', () => {
  const clickhouse = { engine: 'clickhouse', url: 'http://127.0.0.1:1' }
  const cluster = { url: 'postgres://127.0.0.1/x' }

  it.each([
    ['a gateway on its own', {}, true],
    ['a gateway on its own, with ClickHouse', { indexer: clickhouse }, true],
    ['one that leaves it to an indexer', { indexer: { ...clickhouse, write: false } }, false],
    ['one without the indexer', { indexer: { enabled: false } }, false],
    ['a gateway of a cluster, its own embedded index', { cluster }, true],
    ['a gateway of a cluster that shares ClickHouse', { cluster, indexer: clickhouse }, false],
    ['a hub', { cluster: { ...cluster, gateways: 2 }, indexer: clickhouse }, true],
  ])('%s: %s', (_, changes, expected) => {
    expect(writesIndex(ownConfig(configOf(changes)))).toBe(expected)
  })
})

describe('the feeds of the index', () => {
  const problems = (feeds: object, changes: Changes = {}) =>
    checkConfig(
      configOf({ indexer: { feeds: { host: '127.0.0.1', port: 8124, ...feeds } }, ...changes }),
      () => true,
    )

  it('follow the rules of other endpoints: no plain text outside of loopback, a port of their own', () => {
    expect(problems({ enabled: true })).toEqual([])
    expect(problems({ enabled: false, host: '0.0.0.0' })).toEqual([])
    expect(problems({ enabled: true, host: '0.0.0.0' })).toEqual([
      expect.stringContaining('indexer.feeds.host 0.0.0.0 is not a loopback address'),
    ])
    expect(problems({ enabled: true, host: '0.0.0.0' }, { tls: { cert: 'c', key: 'k' } })).toEqual(
      [],
    )
    expect(problems({ enabled: true, port: 8123 })).toEqual([
      'indexer.feeds.port 8123 is taken by indexer: set another port',
    ])
  })
})
