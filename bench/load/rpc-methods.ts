// Calls per second of the methods that clients use most, through the rpc endpoint on the embedded
// chain, beside node:http with the same handler. sendTransaction is the whole way: preflight,
// signatures, execution. Thread: main of the bench process; servers and clients are processes.

import { type BenchProcess, startProcess } from '../../test/testkit/process.ts'
import type { Bench, Contender, Goal, Measurement, RoundContext } from '../lib/bench.ts'
import { httpLoad, jsonPost, type LoadAnswer, verifyLoad } from '../lib/http-load.ts'
import type { StartedChain } from './clients/rpc-method-servers.ts'
import type { SendLoad } from './clients/send-client.ts'

const host = '127.0.0.1'
const connections = 64
const sendsPerSecondMax = 4_000

const rpcPort = 8899
const sysvars = [
  'SysvarC1ock11111111111111111111111111111111',
  'SysvarRent111111111111111111111111111111111',
]

type Kind = 'ours' | 'node'
/** Our own server, or one that runs elsewhere. */
type Measured = StartedChain & { readonly host?: string }
type Params = (started: StartedChain) => readonly unknown[]

const base64 = { commitment: 'processed', encoding: 'base64' }
const reads: Readonly<Record<string, { readonly params: Params; readonly expected: string }>> = {
  getHealth: { params: () => [], expected: '"result":"ok"' },
  getBalance: {
    params: ({ accounts }) => [accounts[0], { commitment: 'processed' }],
    expected: '"value":',
  },
  getAccountInfo: {
    params: ({ accounts }) => [accounts[0], base64],
    expected: '"base64"]',
  },
  getMultipleAccounts: { params: ({ accounts }) => [accounts, base64], expected: '"base64"]' },
}
const names = [...Object.keys(reads), 'sendTransaction']

const title = (method: string, kind: Kind) =>
  kind === 'ours' ? `${method}, rpc endpoint` : `${method}, node:http`

const servers: Record<Kind, Server> = { ours: server('ours'), node: server('node') }
const contenders = names.flatMap((method) => [contender(method, 'node'), contender(method, 'ours')])

export const bench: Bench = {
  name: 'rpc-methods',
  question: 'How many calls per second do the busiest Solana methods answer?',
  cores: 2,
  baseline: contenders[0]!,
  candidates: contenders.slice(1),
  // sendTransaction has none: it costs its signatures and its execution, on any endpoint.
  goals: Object.keys(reads).map(
    (method): Goal => ({
      contender: title(method, 'ours'),
      to: title(method, 'node'),
      figure: 'opsPerSecond',
      atLeast: 1.5,
    }),
  ),
  verify: verifyLoad,
}

/** One process for all contenders of a kind: started by the first, stopped by the last. */
interface Server {
  take(): Promise<StartedChain>
  leave(): Promise<void>
}

function server(kind: Kind): Server {
  let child: BenchProcess | null = null
  let started: Promise<StartedChain> | null = null
  let users = 0
  return {
    take() {
      users += 1
      child ??= startProcess(new URL('./clients/rpc-method-servers.js', import.meta.url))
      started ??= child.call<StartedChain>(kind)
      return started
    },
    async leave() {
      users -= 1
      if (users > 0) return
      await child?.stop()
      child = null
      started = null
    },
  }
}

function contender(method: string, kind: Kind): Contender {
  let started: Measured | null = null
  return {
    name: title(method, kind),
    missing: ({ target }) => {
      if (target === undefined) return undefined
      if (method === 'sendTransaction') return 'it would spend lamports of the deployment'
      return kind === 'node' ? 'a deployment is measured' : undefined
    },
    async prepare(context) {
      started = deployed(context) ?? (await servers[kind].take())
      if (method !== 'sendTransaction' && context.smoke !== true) await read(method, started, 0.3)
    },
    run: ({ seconds }) =>
      method === 'sendTransaction' ? send(started!, seconds) : read(method, started!, seconds),
    close: () => (started?.host === undefined ? servers[kind].leave() : Promise.resolve()),
  }
}

/** The deployment of `--target` and `--token`, with accounts that every cluster has. */
function deployed({ target, token = '' }: RoundContext): Measured | null {
  if (target === undefined) return null
  const [name = '', port = String(rpcPort)] = target.split(':')
  return { host: name, port: Number(port), token, accounts: sysvars }
}

function read(method: string, started: Measured, seconds: number): Promise<Measurement> {
  const { params, expected } = reads[method]!
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params: params(started) })
  const request = jsonPost(started.token, body)
  return httpLoad({
    host: started.host ?? host,
    port: started.port,
    seconds,
    connections,
    request,
    expected,
  })
}

async function send({ port, token }: StartedChain, seconds: number): Promise<Measurement> {
  const client = startProcess(new URL('./clients/send-client.js', import.meta.url))
  try {
    const transactions = Math.ceil(seconds * sendsPerSecondMax)
    const load: SendLoad = { host, port, token, connections, seconds, transactions }
    const answer = await client.call<LoadAnswer>('send', load)
    const { ops, p50, p99, p999, answers, wrong } = answer
    return {
      opsPerSecond: ops,
      latencyUs: { p50, p99, p999 },
      evidence: { answers, wrong },
    }
  } finally {
    await client.stop()
  }
}
