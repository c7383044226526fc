// The checker of break fails for a gateway that refuses valid credentials, and not for one that is
// unavailable.
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Keypair } from '@solana/web3.js'
import { expect, test } from 'vitest'
import { credentials } from '../../break/check.ts'
import { Load } from '../../break/load.ts'
import type { Readers } from '../../break/readers.ts'
import type { Stage } from '../../break/stage.ts'
import { until } from '../../testkit/until.ts'

test.each([
  [401, false],
  [403, false],
  [503, true],
])('%i to calls and queries: holds %s', async (status, holds) => {
  const server = createServer((_, response) => response.writeHead(status).end())
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  // Reason for the cast: it listens on a port.
  const { port } = server.address() as AddressInfo
  const url = () => `http://127.0.0.1:${port}`
  const gateway = { number: 2, isRunning: true, server: { url }, operator: async () => null }
  // Reason for the cast: this has everything that the load uses of it here.
  const stage = {
    gateways: [gateway],
    provision: async () => ({ subscription: { id: 'sub', label: 'metered' }, token: 'valid' }),
    node: { funded: async () => Keypair.generate(), call: async () => null },
    credentials: { token: 'valid', indexer: { user: 'sub', password: 'valid' } },
  } as unknown as Stage
  const load = await Load.open(stage, {} as Readers, () => 0.5)
  await until(() => load.calls.refused > 1 && load.queries.failed > 0, 'calls and a query')
  await load.stop()
  server.close()
  const found = credentials({ load })
  expect(found.holds).toBe(holds)
  for (const what of holds ? [] : ['call', 'query'])
    expect(found.detail).toContain(`times ${status} to a ${what} at gateway 2`)
})
