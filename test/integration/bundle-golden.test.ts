// The shapes of every answer and error of the rpc and websocket endpoints, in golden files:
// inside v1 fields are only added.
import { once } from 'node:events'
import { afterAll, beforeAll, describe, it } from 'vitest'
import { WebSocket } from 'ws'
import { Bundle, noRefill } from '../testkit/bundle.ts'
import { expectShape } from '../testkit/golden.ts'
import { until } from '../testkit/until.ts'

let bundle: Bundle
let url = ''
let websocketPort = 0
let token = ''
let poor = ''

beforeAll(async () => {
  bundle = new Bundle(
    {
      poor: { creditsPerSecond: 1, burst: 1 },
      thrifty: { creditsPerSecond: 1, burst: 2 },
    },
    noRefill,
  )
  url = `http://127.0.0.1:${(await bundle.openRpc()).port}`
  websocketPort = (await bundle.openWebsocket()).port
  token = bundle.issue().token
  poor = bundle.issue({ plan: 'poor' }).token
})

afterAll(() => bundle.dispose())

interface Changes {
  readonly token?: string
  readonly path?: string
  readonly verb?: string
  readonly type?: string
}

async function ask(body: string, changes: Changes = {}) {
  const { path = '/', verb = 'POST', type = 'application/json' } = changes
  const answer = await fetch(`${url}${path}`, {
    method: verb,
    headers: { 'content-type': type, 'x-token': changes.token ?? token },
    body,
  })
  return answer.json()
}

const call = (method: string) => `{"jsonrpc":"2.0","id":1,"method":"${method}"}`

describe('golden shapes of the bundle', () => {
  it('match the answers of rpc', async () => {
    expectShape('rpc/get-health', await ask(call('getHealth')))
    expectShape('rpc/get-version', await ask(call('getVersion')))
    expectShape('rpc/batch', await ask(`[${call('getHealth')},${call('getHealth')}]`))
  })

  it('match the errors of rpc', async () => {
    expectShape('rpc/unauthorized', await ask(call('getHealth'), { token: 'none' }))
    expectShape('rpc/unknown-path', await ask(call('getHealth'), { path: '/x' }))
    expectShape('rpc/unknown-method', await ask(call('nothing')))
    expectShape('rpc/parse-error', await ask('{'))
    expectShape('rpc/invalid-request', await ask('{"id":1}'))
    await ask(call('getHealth'), { token: poor })
    expectShape('rpc/exhausted', await ask(call('getHealth'), { token: poor }))
  })

  it('match the errors of rpc that are no calls', async () => {
    expectShape('rpc/wrong-verb', await ask('{}', { verb: 'PUT' }))
    expectShape('rpc/wrong-type', await ask('{}', { type: 'text/plain' }))
    expectShape('rpc/too-large', await ask(' '.repeat(51_201)))
    expectShape('rpc/empty-batch', await ask('[]'))
    const long = `[${Array(101).fill(call('getHealth'))}]`
    const standard = bundle.issue({ plan: 'standard' }).token
    expectShape('rpc/batch-too-long', await ask(long, { token: standard }))
  })

  it('match the refusals of a batch', async () => {
    const pair = `[${call('getHealth')},${call('getVersion')}]`
    expectShape('rpc/too-dear', await ask(pair, { token: poor }))
    const thrifty = bundle.issue({ plan: 'thrifty' }).token
    await ask(call('getHealth'), { token: thrifty })
    expectShape('rpc/exhausted-batch', await ask(pair, { token: thrifty }))
  })

  it('match the answers and errors of websocket', async () => {
    const socket = new WebSocket(`ws://127.0.0.1:${websocketPort}`, {
      headers: { 'x-token': token },
    })
    await once(socket, 'open')
    const say = async (message: string) => {
      socket.send(message)
      const [data] = (await once(socket, 'message')) as [Buffer]
      return JSON.parse(data.toString())
    }
    expectShape('websocket/get-version', await say(call('getVersion')))
    expectShape('websocket/unknown-method', await say(call('nothing')))
    expectShape('websocket/parse-error', await say('{'))
    socket.terminate()
    const plain = await fetch(`http://127.0.0.1:${websocketPort}/`)
    expectShape('websocket/unauthorized', await plain.json())
    const headers = { 'x-token': token }
    const upgrade = await fetch(`http://127.0.0.1:${websocketPort}/`, { headers })
    expectShape('websocket/upgrade-required', await upgrade.json())
  })

  it('match the refusal of a call on a socket over its budget', async () => {
    const headers = { 'x-token': bundle.issue({ plan: 'thrifty' }).token }
    const socket = new WebSocket(`ws://127.0.0.1:${websocketPort}`, { headers })
    await once(socket, 'open')
    const answers: { error?: unknown }[] = []
    socket.on('message', (data) => answers.push(JSON.parse(String(data))))
    for (let calls = 0; calls < 4; calls += 1) socket.send(call('getVersion'))
    await until(() => answers.length === 4, 'four answers')
    const refused = answers.find(({ error }) => error !== undefined)
    expectShape('websocket/exhausted', refused)
    socket.terminate()
  })
})
