import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { describe, expect, test } from 'vitest'
import { checkEndpoint, checkPort } from '../../src/operator/commands/doctor.ts'

const endpoint = (port: number, more: object = {}) => ({
  name: 'rpc',
  host: '127.0.0.1',
  port,
  udp: false,
  ...more,
})

describe('doctor on ports', () => {
  test('distinguishes a taken TCP port from a free one, and our own from that of another program', async () => {
    const server = createServer().listen(0, '127.0.0.1')
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    const taken = await checkPort(endpoint(port), null)
    expect(taken).toMatchObject({ state: 'fail', next: expect.stringMatching('set rpc.port') })
    const found = (running: Parameters<typeof checkEndpoint>[1], isShared = false) =>
      checkEndpoint(endpoint(port), running, isShared)
    const own = { host: '127.0.0.1', port: 9, tls: false }
    const ours = { state: 'ok', found: '127.0.0.1:9 is used by our server' }
    expect(await found({ rpc: own })).toMatchObject(ours)
    const other = { state: 'fail', found: `127.0.0.1:${port} is taken by another process` }
    expect(await found({})).toMatchObject(other)
    expect(await found({ grpc: { ...own, port } })).toMatchObject(other)
    expect(await found(null)).toMatchObject({ state: 'ok', found: expect.stringMatching('maybe') })
    expect(await found({}, true)).toMatchObject({ state: 'ok' })
    server.close()
    await once(server, 'close')
    expect(await checkPort(endpoint(port), null)).toMatchObject({ state: 'ok' })
    expect(await checkPort(endpoint(0), null)).toMatchObject({
      state: 'ok',
      found: 'any free port',
    })
  })

  test('detects a taken UDP port', async () => {
    const socket = createSocket('udp4').bind(0, '127.0.0.1')
    await once(socket, 'listening')
    const { port } = socket.address()
    expect(await checkPort(endpoint(port, { udp: true }), null)).toMatchObject({ state: 'fail' })
    socket.close()
    await once(socket, 'close')
    expect(await checkPort(endpoint(port, { udp: true }), null)).toMatchObject({ state: 'ok' })
  })

  test('detects an address that is not of this machine', async () => {
    const foreign = await checkPort(endpoint(30_000, { host: '192.0.2.1' }), null)
    expect(foreign).toMatchObject({ state: 'fail', next: expect.stringMatching('set rpc.host') })
  })
})
