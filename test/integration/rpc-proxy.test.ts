// The rpc endpoint in front of scripted nodes: what passes, what is asked again, what never is.
import { afterEach, describe, expect, it, vi } from 'vitest'
import { HandClock } from '../testkit/fake-execution.ts'
import { ProxyStage } from '../testkit/proxy-stage.ts'
import {
  drop,
  error,
  result,
  type Script,
  ScriptedNode,
  silence,
  status,
} from '../testkit/scripted-node.ts'
import { until } from '../testkit/until.ts'

let stage: ProxyStage
afterEach(async () => {
  vi.useRealTimers()
  await stage?.stop()
})

const address = '"So11111111111111111111111111111111111111112"'
const unhealthy = { code: -32005, message: 'Node is unhealthy', data: { numSlotsBehind: null } }

describe('passing through', () => {
  it('sends the params as written and gives the result back byte for byte under the own id', async () => {
    stage = await ProxyStage.start({ default: { nodes: 1, each: { xToken: 'secret-of-node' } } })
    const text = '{ "a":1.50, "big":18446744073709551615,"é":"\\u00e9 ✓" }'
    stage.node().scripts.getBalance = result(text)
    const { text: answer } = await stage.post(
      `{"id":1.0,"jsonrpc":"2.0","params":[ ${address} , {"minimum":1e2} ],"method":"getBalance"}`,
    )
    expect(answer).toBe(`{"jsonrpc":"2.0","result":${text},"id":1.0}\n`)
    const [asked] = stage.node().asked
    expect(asked?.paramsText).toBe(`[ ${address} , {"minimum":1e2} ]`)
    expect(asked?.headers['x-token']).toBe('secret-of-node')
  })

  it("accepts an answer's members in any order, and unknown methods", async () => {
    stage = await ProxyStage.start({ default: { nodes: 1 } })
    const shapes = [
      '{"jsonrpc":"2.0","id":ID,"result":[7]}',
      '{"id":ID,"jsonrpc":"2.0","result":[7]}\r\n',
      ' {"result" : [7], "id" : ID, "jsonrpc":"2.0"}',
      '{"usage":{"result":1},"id":ID,"result":[7],"more":[1]}',
      '{"jsonrpc":"2.0","error":null,"result":[7],"id":ID}',
    ]
    for (const shape of shapes) {
      stage.node().scripts.getTheMoon = ({ id }, response) =>
        response.end(shape.replace('ID', String(id)))
      expect((await stage.call('getTheMoon', '[]')).text).toBe(
        '{"jsonrpc":"2.0","result":[7],"id":"mine"}\n',
      )
    }
    // A devnode's cheat codes are the one exception: no customer changes state without an owner.
    expect((await stage.call('surfnet_setAccount', '[]')).json.error.code).toBe(-32601)
    expect(
      (await stage.post('{"jsonrpc":"2.0","id":2,"method":"with \\"quotes\\""}')).json,
    ).toEqual({ jsonrpc: '2.0', result: 'default/1', id: 2 })
  })

  it('gives a long result back whole under the own id, however the node orders it', async () => {
    stage = await ProxyStage.start({ default: { nodes: 1 } })
    const shapes = [
      '{"jsonrpc":"2.0","result":VALUE,"id":ID}',
      '{"jsonrpc":"2.0","id":ID,"result":VALUE}',
      '{ "jsonrpc":"2.0","result":VALUE,"id":ID }',
      '{"jsonrpc":"2.0","error":null,"result":VALUE,"id":ID}',
      '{"jsonrpc":"2.0","result":VALUE,"error":null,"id":ID}',
    ]
    // The last two fill the buffer in which a node's answer is collected up to a few bytes.
    for (const length of [20_000, 100_000, 262_095, 262_080])
      for (const shape of shapes)
        for (const id of ['1', `"${'é'.repeat(30)}"`]) {
          const value = `["é${'x'.repeat(length)}"]`
          stage.node().scripts.getBalance = ({ id: own }, response) =>
            response.end(shape.replace('ID', String(own)).replace('VALUE', value))
          const { text } = await stage.post(
            `{"jsonrpc":"2.0","id":${id},"method":"getBalance","params":[${length}]}`,
          )
          expect(text === `{"jsonrpc":"2.0","result":${value},"id":${id}}\n`).toBe(true)
        }
  })

  it('never takes the second answer of a node for that of the next call', async () => {
    stage = await ProxyStage.start({ default: { nodes: 1 } })
    const { scripts } = stage.node()
    let stray = ''
    scripts.getBalance = (asked, response) => {
      const answer = `{"jsonrpc":"2.0","result":"of the first","id":${asked.id}}\n`
      stray = `HTTP/1.1 200 OK\r\ncontent-length: ${answer.length}\r\n\r\n${answer}`
      response.end(answer)
    }
    scripts.getSupply = (asked, response) => {
      // Out of step: what it said before once more, then what it was asked.
      response.socket?.write(stray)
      stray = ''
      result('"of the second"')(asked, response)
    }
    expect((await stage.call('getBalance', '[1]')).json.result).toBe('of the first')
    expect((await stage.call('getSupply', '[2]')).json.result).toBe('of the second')
    expect(stray).toBe('')
  })

  it("passes on code, message and data of a node's error, and never its address", async () => {
    stage = await ProxyStage.start({ default: { nodes: 1, each: { xToken: 'secret-of-node' } } })
    const node = stage.node()
    node.scripts.getBalance = error(-32602, 'Invalid params: é', { logs: ['a'] })
    expect((await stage.call('getBalance', '[1]')).json.error).toEqual({
      code: -32602,
      message: 'Invalid params: é',
      data: { logs: ['a'] },
    })
    for (const secret of [node.url.slice(7), '127.0.0.1', 'secret-of-node']) {
      node.scripts.getBalance = error(-32603, `cannot reach ${secret}/x`)
      const { text, json } = await stage.call('getBalance', '[1]')
      expect(text).not.toContain(secret)
      expect(json.error).toEqual({ code: -32603, message: 'Internal error' })
    }
    node.scripts.getBalance = ({ id }, response) =>
      response.end(`{"id":${id},"error":{"code":-32603,"message":"\\u0073ecret-of-node"}}`)
    expect((await stage.call('getBalance', '[1]')).json.error.message).toBe('Internal error')
  })

  it('answers a batch in order, whatever the nodes take', async () => {
    stage = await ProxyStage.start({ default: { nodes: 1 } })
    const late: (() => void)[] = []
    stage.node().scripts.getSupply = (asked, response) =>
      late.push(() => result('"late"')(asked, response))
    const calls = ['getSupply', 'getIdentity', 'getHealth'].map(
      (method, id) => `{"jsonrpc":"2.0","id":${id},"method":"${method}"}`,
    )
    const answer = stage.post(`[${calls.join(',')}]`)
    await until(() => late.length === 1 && stage.node().count('getIdentity') === 1, 'all asked')
    late[0]!()
    const { json } = await answer
    expect(json.map((one: { result: unknown }) => one.result)).toEqual(['late', 'default/1', 'ok'])
  })

  it('answers getHealth from the state of the set and adds its name to getVersion', async () => {
    stage = await ProxyStage.start({ default: { nodes: 1 } })
    stage.node().scripts.getVersion = result('{"feature-set":5,"solana-core":"4.1.2"}')
    const startMs = performance.now()
    for (let times = 0; times < 3; times++)
      expect((await stage.call('getVersion', '[]')).json.result).toEqual({
        'feature-set': 5,
        'solana-core': '4.1.2',
        sluice: '9.9.9',
      })
    // It is kept for a second.
    if (performance.now() - startMs < 1_000) expect(stage.node().count('getVersion')).toBe(1)
    expect((await stage.call('getHealth', '[]')).json.result).toBe('ok')
    stage.node().isHealthy = false
    await stage.untilState('lagging')
    expect((await stage.call('getHealth', '[]')).json.error).toEqual(unhealthy)
  })

  it('answers GET /health from the state of the set, with 200 in every state', async () => {
    stage = await ProxyStage.start({ default: { nodes: 1 } })
    const health = async () => {
      const response = await fetch(`http://127.0.0.1:${stage.port}/health`)
      return [response.status, await response.text()]
    }
    expect(await health()).toEqual([200, 'ok'])
    stage.node().isHealthy = false
    await stage.untilState('lagging')
    expect(await health()).toEqual([200, 'behind'])
    await stage.node().close()
    await stage.untilState('down')
    expect(await health()).toEqual([200, 'unknown'])
  })
})

describe('failover', () => {
  const bad: Record<string, Script> = {
    'a dropped connection': drop,
    'a 503': status(503),
    'a 429': status(429),
    'a 401': status(401),
    'no JSON-RPC': (_, response) => response.end('{"oops":true}'),
    'an empty body': (_, response) => response.end(),
    'half an answer': (_, response) => {
      response.writeHead(200, { 'content-length': 500 }).write('{"jsonrpc":"2.0","result":')
      setTimeout(() => response.socket?.destroy(), 5)
    },
    '-32004': error(-32004, 'Block not available for slot 5'),
    '-32005': error(-32005, 'Node is behind by 42 slots', { numSlotsBehind: 42 }),
    '-32014': error(-32014, 'Block status not yet available'),
    '-32016': error(-32016, 'Minimum context slot has not been reached', { contextSlot: 1 }),
  }
  for (const [name, script] of Object.entries(bad))
    it(`retries at another node after ${name}`, async () => {
      stage = await ProxyStage.start({ default: { nodes: 2 } })
      // Whichever is asked first is the bad one.
      let bad = ''
      for (const node of stage.nodes.default!)
        node.scripts.getBalance = (asked, response) => {
          bad ||= node.name
          if (node.name === bad) script(asked, response)
          else result(`"${node.name}"`)(asked, response)
        }
      const { json } = await stage.call('getBalance', '[]')
      expect(json.result).toBe(bad === 'default/1' ? 'default/2' : 'default/1')
      expect(stage.tally.failovers).toBe(1)
    })

  it('passes on the error that every node returns', async () => {
    stage = await ProxyStage.start({ default: { nodes: 2 } })
    for (const node of stage.nodes.default!)
      node.scripts.getBlock = error(-32004, 'Block not available for slot 5')
    const { json } = await stage.call('getBlock', '[5]')
    expect(json.error).toEqual({ code: -32004, message: 'Block not available for slot 5' })
    expect(stage.nodes.default!.map((node) => node.count('getBlock'))).toEqual([1, 1])
  })

  it('retries at the only node when its connection broke', async () => {
    stage = await ProxyStage.start({ default: { nodes: 1 } })
    let turns = 0
    stage.node().scripts.getBalance = (asked, response) =>
      turns++ === 0 ? drop(asked, response) : result('5')(asked, response)
    expect((await stage.call('getBalance', '[]')).json.result).toBe(5)
  })

  const timeoutMs = 1000
  const none = () => null
  const stuck: Script = (_, response) =>
    void response.writeHead(200, { 'content-length': 500 }).write('{"jsonrpc":"2.0","result":')
  for (const [name, script] of Object.entries({ silent: silence, 'half silent': stuck }))
    it(`times out a ${name} node and retries at the other`, async () => {
      // Only the first call's time passes: the other node has its own, however slow the machine.
      stage = await ProxyStage.start({ default: { nodes: 2, timeoutMs } }, none, new HandClock())
      let reached = () => {}
      const isAsked = new Promise<void>((resolve) => {
        reached = resolve
      })
      let turns = 0
      for (const node of stage.nodes.default!)
        node.scripts.getBalance = (asked, response) => {
          if (turns++ > 0) return result('"good"')(asked, response)
          script(asked, response)
          reached()
        }
      vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
      const told = stage.call('getBalance', '[]')
      await isAsked
      // By then what the node wrote has arrived.
      await stage.call('getTheMoon', '[]')
      expect(turns).toBe(1)
      vi.advanceTimersByTime(timeoutMs / 2)
      expect((await told).json.result).toBe('good')
    })

  it('gives a node the whole time where no other one can take the read', async () => {
    const only = await new ScriptedNode().listen()
    const options = { nodes: [only.url, ''], timeoutMs, each: { grpc: 'http://127.0.0.1:1' } }
    stage = await ProxyStage.start({ default: options }, none, new HandClock())
    await stage.untilState('up')
    const isAsked = new Promise<() => void>((resolve) => {
      only.scripts.getBalance = (asked, response) => {
        if (only.count('getBalance') > 1) return result('"of a second try"')(asked, response)
        resolve(() => result('"late"')(asked, response))
      }
    })
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    const told = stage.call('getBalance', '[]')
    const answer = await isAsked
    await vi.advanceTimersByTimeAsync(timeoutMs * 0.65)
    answer()
    const { json } = await told
    const count = only.count('getBalance')
    await only.close()
    expect([json.result, count]).toEqual(['late', 1])
  })

  it('retries at no node that let the time of a try pass', async () => {
    stage = await ProxyStage.start({ default: { nodes: 2, timeoutMs } })
    // Whichever is asked first is silent, the other one drops the connection.
    let silent = ''
    for (const node of stage.nodes.default!)
      node.scripts.getBalance = (asked, response) => {
        silent ||= node.name
        if (node.name !== silent) drop(asked, response)
      }
    expect((await stage.call('getBalance', '[]')).json.error.code).toBe(-32005)
    const counts = stage.nodes.default!.map((node) => [node.name, node.count('getBalance')])
    expect(Object.fromEntries(counts)[silent]).toBe(1)
  })

  it('answers -32005 in time when no node answers', async () => {
    stage = await ProxyStage.start({ default: { nodes: 2, timeoutMs: 400 } })
    for (const node of stage.nodes.default!) node.scripts.getBalance = silence
    expect((await stage.call('getBalance', '[]')).json.error.code).toBe(-32005)
  })

  it('answers -32005 at once when all are dead, and goes on when one is back', async () => {
    stage = await ProxyStage.start({ default: { nodes: 2 } })
    await Promise.all(stage.nodes.default!.map((node) => node.close()))
    await stage.untilState('down')
    await stage.untilState('down', 'default', 2)
    const told = await stage.call('getBalance', '[]')
    expect([told.status, told.json.error]).toEqual([200, unhealthy])
    expect((await stage.call('sendTransaction', '["x"]')).json.error).toEqual(unhealthy)
    await stage.node().listen()
    stage.node().scripts.getBalance = result('1')
    await stage.untilState('up')
    expect((await stage.call('getBalance', '[]')).json.result).toBe(1)
  })

  it('sends nothing to a node that is known to be below minContextSlot', async () => {
    stage = await ProxyStage.start({ default: { nodes: 2 } })
    stage.node(1).slots = { processed: 1000, finalized: 900 }
    stage.node(2).slots = { processed: 1010, finalized: 990 }
    const set = stage.upstreams.set('default')!
    await until(() => set.nodes[0]!.slot(2) === 900 && set.nodes[1]!.slot(2) === 990, 'slots known')
    for (let times = 0; times < 10; times++)
      await stage.call('getBalance', `[${address},{"minContextSlot":95${times}}]`)
    expect(stage.nodes.default!.map((node) => node.count('getBalance'))).toEqual([0, 10])
    const refusal = error(-32016, 'Minimum context slot has not been reached', { contextSlot: 990 })
    for (const node of stage.nodes.default!) node.scripts.getBalance = refusal
    const { json } = await stage.call('getBalance', `[${address},{"minContextSlot":2000}]`)
    expect(json.error).toMatchObject({ code: -32016, data: { contextSlot: 990 } })
  })
})
