// A connection to PostgreSQL whose sessions end at the worst moment, on virtual time.
import { expect, test } from 'vitest'
import { silentLog } from '../../../../../src/base/telemetry/log.ts'
import { PostgresConnection } from '../../../../../src/customers/cluster/postgres/client.ts'
import { Network, onNetwork } from '../../../../simulate/postgres/network.ts'
import { PostgresPair } from '../../../../simulate/postgres/pair.ts'
import { onVirtualTime } from '../../../../simulate/virtual-time.ts'

test('a session that ends before it replaces a silent one is not used', () =>
  onVirtualTime(1, async (time) => {
    const random = () => 0.5
    const network = new Network({ random, onFault: () => {} })
    new PostgresPair({ network, random, isSynchronous: true })
    await onNetwork(network, async () => {
      const { clock } = time
      const url = 'postgres://sluice@a/sluice'
      const connection = new PostgresConnection({ url, name: 'one', clock, log: silentLog }).start()
      await time.advance(100)
      expect(connection.isUp()).toBe(true)
      const [silent] = network.paths
      silent!.silence()
      const spares = () => [...network.paths].filter((path) => path !== silent)
      while (spares().length === 0) await time.advance(1)
      // It is set up, and the answer of the silent one would still be preferred.
      await time.advance(50)
      expect(connection.isUp()).toBe(true)
      for (const spare of spares()) spare.cut()
      await time.advance(3_000)
      const asked = connection.query('SELECT 1')
      await time.advance(100)
      expect(await asked).toEqual([{ '?column?': 1 }])
      await Promise.all([connection.stop(), time.advance(1_000)])
    })
  }))
