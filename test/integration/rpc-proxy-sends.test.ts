// What must happen exactly once, what may be shared, what may be kept, and who is led where.
import { afterEach, describe, expect, it } from 'vitest'
import { HandClock } from '../testkit/fake-execution.ts'
import { ProxyStage } from '../testkit/proxy-stage.ts'
import { drop, error, result, type Script, silence, status } from '../testkit/scripted-node.ts'
import { hangMs, until } from '../testkit/until.ts'

let stage: ProxyStage
afterEach(() => stage?.stop())

const unhealthy = { code: -32005, message: 'Node is unhealthy', data: { numSlotsBehind: null } }
const counts = (method: string) => stage.nodes.default!.map((node) => node.count(method))
const sum = (numbers: number[]) => numbers.reduce((total, one) => total + one, 0)

describe('sendTransaction', () => {
  const bad: Record<string, Script> = {
    'a dropped connection': drop,
    'a 503': status(503),
    'a 429': status(429),
    'no JSON-RPC': (_, response) => response.end('{"oops":true}'),
    '-32005': error(-32005, 'Node is behind'),
    silence,
  }
  for (const [name, script] of Object.entries(bad))
    it(`goes to one node once, also after ${name}`, async () => {
      const timeoutMs = script === silence ? 300 : hangMs
      stage = await ProxyStage.start({ default: { nodes: 3, timeoutMs, hedge: true } })
      for (const node of stage.nodes.default!) {
        node.scripts.sendTransaction = script
        node.scripts.requestAirdrop = script
      }
      for (const method of ['sendTransaction', 'requestAirdrop']) {
        expect((await stage.call(method, '["a"]')).json.error.code).toBe(-32005)
        // On a busy machine the time may be over before the node has read it.
        await until(() => sum(counts(method)) > 0, 'the node')
        expect(sum(counts(method))).toBe(1)
      }
    })

  it('is never joined or kept: two at once are two', async () => {
    stage = await ProxyStage.start({ default: { nodes: 2 } })
    const told = await Promise.all([1, 2].map(() => stage.call('sendTransaction', '["a"]')))
    expect(told.map(({ json }) => typeof json.result)).toEqual(['string', 'string'])
    await stage.call('sendTransaction', '["a"]')
    expect(sum(counts('sendTransaction'))).toBe(3)
  })

  it('goes to every node once with broadcast, and the first good answer wins', async () => {
    stage = await ProxyStage.start({ default: { nodes: 3, broadcast: true } })
    stage.node(1).scripts.sendTransaction = error(-32002, 'simulation failed')
    stage.node(2).scripts.sendTransaction = drop
    stage.node(3).scripts.sendTransaction = (asked, response) =>
      setTimeout(() => result('"signature"')(asked, response), 50)
    expect((await stage.call('sendTransaction', '["a"]')).json.result).toBe('signature')
    expect(counts('sendTransaction')).toEqual([1, 1, 1])
    stage.node(3).scripts.sendTransaction = status(500)
    expect((await stage.call('sendTransaction', '["b"]')).json.error.code).toBe(-32002)
    // An airdrop would come three times.
    await stage.call('requestAirdrop', '["a",1]')
    expect(sum(counts('requestAirdrop'))).toBe(1)
  })
})

describe('reads', () => {
  it('are shared while an identical one is in flight, under their own ids', async () => {
    stage = await ProxyStage.start({ default: { nodes: 1 } })
    const waiting: (() => void)[] = []
    stage.node().scripts.getBalance = (asked, response) =>
      waiting.push(() => result(asked.paramsText)(asked, response))
    const calls = [...Array(20).keys()].map((id) =>
      stage.post(`{"jsonrpc":"2.0","id":${id},"method":"getBalance","params":["${id % 2}"]}`),
    )
    await until(() => stage.tally.joined === 18 && waiting.length === 2, 'joined')
    for (const answer of waiting) answer()
    const told = await Promise.all(calls)
    expect(told.map(({ json }) => [json.id, json.result])).toEqual(
      told.map((_, id) => [id, [`${id % 2}`]]),
    )
    expect(stage.node().count('getBalance')).toBe(2)
  })

  for (const method of ['getProgramAccounts', 'getVersion'])
    it(`share the buffer of a long answer without releasing it twice: ${method}`, async () => {
      stage = await ProxyStage.start({ default: { nodes: 1 } })
      const long = (text: string) => JSON.stringify(text.repeat(100_000))
      const waiting: (() => void)[] = []
      stage.node().scripts[method] = (asked, response) =>
        waiting.push(() => result(long('a'))(asked, response))
      const calls = [1, 2, 3].map(() => stage.call(method, '[]'))
      await until(() => stage.tally.joined === 2 && waiting.length === 1, 'joined')
      waiting[0]!()
      for (const { json } of await Promise.all(calls)) expect(json.result).toBe('a'.repeat(100_000))
      for (const letter of 'bcd') {
        stage.node().scripts.getBalance = result(long(letter))
        const { json } = await stage.call('getBalance', `["${letter}"]`)
        expect(json.result).toBe(letter.repeat(100_000))
      }
    })

  it('that joined a long one show no older slot than the customer has seen', async () => {
    stage = await ProxyStage.start({ default: { nodes: 2 } })
    const newest = { '1': 1_000, '2': 1_005 }
    const data = 'a'.repeat(400_000)
    const waiting: (() => void)[] = []
    for (const [number, slot] of Object.entries(newest)) {
      const node = stage.node(Number(number))
      node.slots = { processed: slot, finalized: 968 }
      node.scripts.getSlot = result(`${slot}`)
      node.scripts.getMultipleAccounts = (asked, response) =>
        waiting.push(() =>
          result(`{"context":{"slot":${slot}},"value":["${data}"]}`)(asked, response),
        )
    }
    const config = '{"commitment":"processed"}'
    const isSeen = async () => (await stage.call('getSlot', `[${config}]`)).json.result === 1_005
    await until(isSeen, 'the newer slot')
    for (let round = 1; round <= 4; round++) {
      const params = `[["${round}"],${config}]`
      const calls = [1, 2, 3, 4].map(() => stage.call('getMultipleAccounts', params))
      await until(() => stage.tally.joined === round * 3, 'joined')
      const answers = Promise.all(calls)
      let isAnswered = false
      void answers.then(() => {
        isAnswered = true
      })
      await until(() => {
        for (const answer of waiting.splice(0)) answer()
        return isAnswered
      }, 'the answers')
      for (const { json } of await answers) expect(json.result.context.slot).toBe(1_005)
    }
  })

  it('are hedged when they are slow, once, and sends never', async () => {
    stage = await ProxyStage.start({ default: { nodes: 3, hedge: true } })
    for (let read = 0; read < 40; read++) await stage.call('getBalance', `[${read}]`)
    // A stall may have been one, too.
    const { hedges, failovers } = stage.tally
    let turns = 0
    for (const node of stage.nodes.default!)
      node.scripts.getBalance = (asked, response) =>
        turns++ === 0 ? silence(asked, response) : result('"fast"')(asked, response)
    expect((await stage.call('getBalance', '["slow"]')).json.result).toBe('fast')
    const { tally } = stage
    expect([turns, tally.hedges - hedges, tally.failovers - failovers]).toEqual([2, 1, 0])
  })

  const block = '{"blockhash":"x","transactions":[]}'
  const kept: [string, string, string][] = [
    ['getBlock', '[5]', block],
    ['getBlock', '[5,{"commitment":"finalized","encoding":"base64"}]', block],
    ['getTransaction', '["s","json"]', block],
    ['getBlockTime', '[900]', '17'],
    ['getGenesisHash', '[]', '"g"'],
  ]
  const unkept: [string, string, Script][] = [
    ['getBlock', '[5,{"commitment":"confirmed"}]', result(block)],
    ['getTransaction', '["s",{"commitment":"processed"}]', result(block)],
    ['getTransaction', '["s"]', result('null')],
    ['getTransaction', '["s"]', error(-32015, 'version')],
    ['getBlockTime', '[999]', result('17')],
    ['getAccountInfo', '["a",{"commitment":"finalized"}]', result('{"value":null}')],
    ['getBalance', '["a"]', result('5')],
  ]

  it('are kept when their answer can never change', async () => {
    stage = await ProxyStage.start({ default: { nodes: 1 } })
    for (const [index, [method, params, text]] of kept.entries()) {
      stage.node().asked.length = 0
      stage.node().scripts[method] = result(text)
      const first = await stage.call(method, params)
      expect(await stage.call(method, params)).toEqual(first)
      expect(stage.node().count(method)).toBe(1)
      expect(stage.tally.cacheHits).toBe(index + 1)
    }
  })

  it('are not kept when it may: other commitments, null, errors, slots not yet final', async () => {
    stage = await ProxyStage.start({ default: { nodes: 1 } })
    for (const [method, params, script] of unkept) {
      stage.node().asked.length = 0
      stage.node().scripts[method] = script
      await stage.call(method, params)
      await stage.call(method, params)
      expect([method, params, stage.node().count(method)]).toEqual([method, params, 2])
    }
    expect(stage.tally.cacheHits).toBe(0)
  })

  it('do not show a customer a slot that goes back because of another node', async () => {
    // Probes are slower than slots: both nodes look alike, one is two slots ahead. Time stands still,
    // so that none is late with a probe either, which makes the other one the better.
    stage = await ProxyStage.start({ default: { nodes: 2 } }, () => null, new HandClock())
    stage.node(1).scripts.getSlot = result('1003')
    stage.node(2).scripts.getSlot = result('1001')
    const seen: number[] = []
    for (let turn = 0; turn < 40; turn++)
      seen.push((await stage.call('getSlot', `[{"commitment":"processed"}]`)).json.result)
    expect(seen).toEqual([...seen].sort((a, b) => a - b))
  })
})

describe('dedicated nodes', () => {
  it('serve their customer alone, and no other node does when they are down', async () => {
    stage = await ProxyStage.start({ default: { nodes: 1 }, acme: { nodes: 1 } })
    const dedicated = stage.bundle.issue({
      products: ['bundle', 'dedicated-node'],
      upstream: 'acme',
    }).token
    for (const node of [stage.node(), stage.nodes.acme![0]!])
      node.scripts.getGenesisHash = result(`"${node.name}"`)
    const ask = async (method: string, token: string) =>
      (await stage.call(method, '[]', token)).json
    for (const method of ['getBalance', 'getGenesisHash', 'getGenesisHash']) {
      expect((await ask(method, dedicated)).result).toBe('acme/1')
      expect((await ask(method, stage.token)).result).toBe('default/1')
    }
    await stage.nodes.acme![0]!.close()
    await stage.untilState('down', 'acme')
    const asked = stage.node().asked.length
    for (const method of ['getBalance', 'getHealth', 'getVersion', 'sendTransaction'])
      expect((await ask(method, dedicated)).error).toEqual(unhealthy)
    expect(stage.node().asked.length).toBe(asked)
    expect((await ask('getBalance', stage.token)).result).toBe('default/1')
  })

  it('serve without a default set, and a set that is gone is replaced by no other', async () => {
    stage = await ProxyStage.start({ acme: { nodes: 1 } })
    const issue = (upstream: string) =>
      stage.bundle.issue({ products: ['bundle', 'dedicated-node'], upstream }).token
    expect((await stage.call('getBalance', '[]', issue('acme'))).json.result).toBe('acme/1')
    for (const token of [stage.token, issue('gone')])
      for (const method of ['getHealth', 'getBalance'])
        expect((await stage.call(method, '[]', token)).json.error).toEqual(unhealthy)
  })
})
