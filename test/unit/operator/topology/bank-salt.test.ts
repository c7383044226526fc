import { expect, it } from 'vitest'
import { gatewayConfig } from '../../../../src/operator/config/config.ts'
import { loadConfig } from '../../../../src/operator/config/load.ts'
import { bankSaltOf } from '../../../../src/operator/topology/set-chains.ts'

const stream = { grpc: 'http://127.0.0.1:10011', xToken: 'of the hub' }
const devnode = { rpc: 'http://127.0.0.1:9999', xToken: '' }
/** Of the set of a gateway whose hub has the embedded chain: one node for calls, one is the hub. */
async function saltOf(number: number, of = stream): Promise<unknown> {
  const loaded = await loadConfig({ env: {} })
  if (!loaded.ok) throw new Error(loaded.problems.join('; '))
  const place = { number, hub: 'here', ports: {}, stream: of, devnode }
  const { nodes } = gatewayConfig(loaded.config, place).upstreams.default!
  expect(nodes).toHaveLength(2)
  const seen = nodes.map((addresses) => {
    return { addresses, has: (kind: 'rpc' | 'grpc') => addresses[kind] !== '' }
  })
  return bankSaltOf({ nodes: seen } as never)
}

it('gateways of a hub name its banks alike, those of another hub do not', async () => {
  const first = await saltOf(1)
  expect(first).toEqual({ bankSalt: expect.any(String) })
  expect(await saltOf(2)).toEqual(first)
  expect(await saltOf(1, { ...stream, xToken: 'of another hub' })).not.toEqual(first)
})
