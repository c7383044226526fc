// How the server ends: drained and with code 0 at the first signal, at once at the second.
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { WebSocket } from 'ws'
import { startServer } from '../testkit/server.ts'

/** For tests of what every server does; the others close all threads and processes. */
const small = ['--metrics.enabled=false', '--chain.traffic=0']

describe('a signal', () => {
  for (const [signal, flags] of [
    ['SIGTERM', []],
    ['SIGINT', small],
  ] as const)
    test(`${signal} closes sockets with 1001, removes doors.json and exits 0`, async () => {
      const server = await startServer({ flags })
      const socket = new WebSocket(server.url('websocket'), {
        headers: { 'x-token': server.token },
      })
      await once(socket, 'open')
      const closed = once(socket, 'close') as Promise<[number]>
      expect(await server.stop(signal)).toBe(0)
      expect((await closed)[0]).toBe(1001)
      expect(existsSync(join(server.data, 'doors.json'))).toBe(false)
      expect(existsSync(join(server.data, 'operator.sock'))).toBe(false)
      await server.dispose()
    })

  test('of a terminal, which reaches the children too, ends the server alone and in order', async () => {
    const server = await startServer({ isGroup: true, isWhole: true })
    const exited = once(server.child, 'exit') as Promise<[number | null]>
    process.kill(-server.child.pid!, 'SIGINT')
    expect((await exited)[0]).toBe(0)
    expect(server.stderr()).not.toContain('died')
    await server.dispose()
  })

  test('sent twice ends the process without waiting', async () => {
    const server = await startServer({ flags: small })
    const exited = once(server.child, 'exit') as Promise<[number | null]>
    server.child.kill('SIGTERM')
    server.child.kill('SIGINT')
    const [code] = await exited
    expect([0, 1]).toContain(code)
    await server.dispose()
  })

  test('that kills leaves a folder on which the next start works', async () => {
    const server = await startServer({ flags: small })
    await server.stop('SIGKILL')
    const again = await startServer({ data: server.data, flags: small })
    const answer = await fetch(again.url('rpc'), {
      method: 'POST',
      headers: { 'x-token': server.token, 'content-type': 'application/json' },
      body: '{"jsonrpc":"2.0","id":1,"method":"getHealth"}',
    })
    expect(await answer.json()).toMatchObject({ result: 'ok', id: 1 })
    await again.dispose()
  })
})
