import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { describe, expect, test } from 'vitest'
import { checkPort } from '../../src/operator/commands/doctor.ts'

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
    const taken = await checkPort(endpoint(port), false)
    expect(taken).toMatchObject({ state: 'fail', next: expect.stringMatching('set rpc.port') })
    expect(await checkPort(endpoint(port), true)).toMatchObject({ state: 'ok' })
    server.close()
    await once(server, 'close')
    expect(await checkPort(endpoint(port), false)).toMatchObject({ state: 'ok' })
    expect(await checkPort(endpoint(0), false)).toMatchObject({
      state: 'ok',
      found: 'any free port',
    })
  })

  test('detects a taken UDP port', async () => {
    const socket = createSocket('udp4').bind(0, '127.0.0.1')
    await once(socket, 'listening')
    const { port } = socket.address()
    expect(await checkPort(endpoint(port, { udp: true }), false)).toMatchObject({ state: 'fail' })
    socket.close()
    await once(socket, 'close')
    expect(await checkPort(endpoint(port, { udp: true }), false)).toMatchObject({ state: 'ok' })
  })

  test('detects an address that is not of this machine', async () => {
    const foreign = await checkPort(endpoint(30_000, { host: '192.0.2.1' }), false)
    expect(foreign).toMatchObject({ state: 'fail', next: expect.stringMatching('set rpc.host') })
  })
})
