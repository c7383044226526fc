// How late slot notifications are beside a full transactionSubscribe, and without one.
// Thread: main of the bench process; the endpoint and the reader of transactions are processes of
// their own.
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { WebSocket } from 'ws'
import { Latencies } from '../../src/loadtest/latencies.ts'
import { type BenchProcess, startProcess } from '../../test/testkit/process.ts'
import { type Bench, type Contender, latencyUsOf } from '../lib/bench.ts'
import { Shared } from '../lib/shared.ts'
import type { SlotsEndpoint } from './clients/slots-endpoint.ts'

const alone = 'slots alone'
const beside = 'beside a full transactionSubscribe'
const settleMs = 500

export const bench: Bench = {
  name: 'slots-first',
  question: 'How late is a slot notification beside a full transactionSubscribe?',
  cores: 2,
  baseline: contender(alone, false),
  candidates: [contender(beside, true)],
  goals: [
    { contender: beside, figure: 'p50', atMost: 2_000 },
    { contender: beside, figure: 'p99', atMost: 10_000 },
  ],
  verify: ({ evidence }, name) => {
    if (!(Number(evidence?.slots) > 0)) return 'no slot came'
    const isRead = Number(evidence?.transactions) > 0
    return isRead === (name === beside) ? undefined : 'the transactions are not as they should be'
  },
}

interface Stage {
  readonly endpoint: BenchProcess
  readonly reader: BenchProcess
  readonly at: SlotsEndpoint
}

const shared = new Shared(async () => {
  const entry = new URL('./clients/slots-endpoint.js', import.meta.url)
  const [endpoint, reader] = [startProcess(entry), startProcess(entry)]
  const at = await endpoint.call<SlotsEndpoint>('open')
  const stop = async () => void (await Promise.all([reader.stop(), endpoint.stop()]))
  return { endpoint, reader, at, stop }
})

function contender(name: string, isBeside: boolean): Contender {
  return {
    name,
    missing: ({ target }) => (target === undefined ? undefined : 'measures an endpoint of its own'),
    async run(context) {
      const stage: Stage = await shared.get(context)
      if (isBeside) await stage.reader.call('read', stage.at)
      try {
        return await measure(stage, isBeside, context.seconds)
      } finally {
        await stage.reader.call('leave')
      }
    },
    close: () => shared.stop(),
  }
}

async function measure({ reader, at }: Stage, isBeside: boolean, seconds: number) {
  const socket = new WebSocket(at.url, { headers: { 'x-token': at.token } })
  await once(socket, 'open')
  socket.send('{"jsonrpc":"2.0","id":1,"method":"slotsUpdatesSubscribe"}')
  await once(socket, 'message')
  await sleep(settleMs)
  const times = new Latencies()
  socket.on('message', (data) => {
    const nowMs = performance.timeOrigin + performance.now()
    times.record(Math.max(0, nowMs - JSON.parse(String(data)).params.result.timestamp))
  })
  const isRead = async () => !isBeside || (await reader.call<number>('count')) > 0
  do await sleep(seconds * 1000)
  while (times.count === 0 || !(await isRead()))
  socket.terminate()
  const transactions = await reader.call<number>('count')
  return {
    opsPerSecond: times.count / seconds,
    latencyUs: latencyUsOf(times),
    evidence: { slots: times.count, transactions },
  }
}
