// A gateway whose copy of the cluster's registry is too old: unavailable, never unauthenticated.
import { afterEach, expect, test } from 'vitest'
import WebSocket from 'ws'
import { systemClock } from '../../src/base/clock.ts'
import { Gate } from '../../src/customers/auth/gate.ts'
import { Bundle } from '../testkit/bundle.ts'

const bundle = new Bundle()
afterEach(() => bundle.dispose())

test('answers 503 on rpc and websocket to every token while the registry is too old', async () => {
  const { token } = bundle.issue()
  let isExpired = true
  const gate = new Gate(bundle.directory, { clock: systemClock, isExpired: () => isExpired })
  const rpc = await bundle.openRpc({ gate })
  const call = async (sent: string) => {
    const answer = await fetch(`http://127.0.0.1:${rpc.port}/`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-token': sent },
      body: '{"jsonrpc":"2.0","id":1,"method":"getHealth"}',
    })
    return [answer.status, await answer.text()] as const
  }
  for (const sent of [token, 'wrong']) {
    const [status, body] = await call(sent)
    expect(status).toBe(503)
    expect(JSON.parse(body)).toMatchObject({ error: { code: -32005 } })
  }
  const websocket = await bundle.openWebsocket({ gate })
  const socket = new WebSocket(`ws://127.0.0.1:${websocket.port}/`, {
    headers: { 'x-token': token },
  })
  const refused = await new Promise<Error>((resolve) => socket.once('error', resolve))
  expect(refused.message).toContain('503')
  isExpired = false
  expect((await call(token))[0]).toBe(200)
  expect((await call('wrong'))[0]).toBe(401)
})
