import { type AddressInfo, createServer, type Server } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import { resolvePort } from '../../../../src/base/transport/listen-address.ts'
import { describeFailure, uws } from '../../../../src/base/transport/uws.ts'
import { until } from '../../../testkit/until.ts'

const servers: Server[] = []

afterEach(async () => {
  for (const server of servers.splice(0)) await new Promise((resolve) => server.close(resolve))
})

describe('resolvePort', () => {
  it('finds a free port for 0 and leaves it free', async () => {
    const isLeftFree = async () => {
      const port = await resolvePort({ host: '127.0.0.1', port: 0 }, 'rpc')
      expect(port).toBeGreaterThan(0)
      const again = resolvePort({ host: '127.0.0.1', port }, 'rpc')
      return again.then(
        (same) => same === port,
        () => false,
      )
    }
    // Another process may take it in between.
    await until(isLeftFree, 'a port that stays free')
  })

  it('reports in one sentence which product needs a port that is taken', async () => {
    const server = createServer()
    servers.push(server)
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const { port } = server.address() as AddressInfo
    await expect(resolvePort({ host: '127.0.0.1', port }, 'grpc')).rejects.toThrow(
      `grpc: 127.0.0.1:${port} is taken by another process; stop it or set grpc.port`,
    )
  })

  it('reports an address that is not of this machine', async () => {
    await expect(resolvePort({ host: '192.0.2.1', port: 0 }, 'rpc')).rejects.toThrow(
      /rpc: 192\.0\.2\.1 is not an address of this machine; set rpc\.host/,
    )
  })
})

describe('the native server', () => {
  it('loads here', () => {
    expect(typeof uws().App).toBe('function')
  })

  it('names the Node and the C library that it needs when it does not load', () => {
    const sentence = describeFailure("/lib/libc.so.6: version `GLIBC_2.38' not found")
    expect(sentence).toContain(`Node ${process.versions.node}`)
    expect(sentence).toContain('GLIBC 2.38 is missing here')
    expect(sentence).toContain('Node 24 or 22 with glibc 2.38')
    expect(sentence).toContain('Node 20.19 or a later 20 with glibc 2.34')
    expect(sentence.split('\n')).toHaveLength(1)
  })
})
