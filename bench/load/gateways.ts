// `--gateways 2` beside one process: calls per second of processor time, how evenly connections
// spread, and how soon a killed gateway is back. Thread: main of the bench process; servers, node
// and client are processes of their own.
import { readdirSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { askOperator } from '../../src/base/transport/unix-socket.ts'
import { postgresMissing } from '../../test/cluster/postgres.ts'
import { until } from '../../test/testkit/until.ts'
import type { Bench, Contender, Measurement, RoundContext } from '../lib/bench.ts'
import {
  type Called,
  type CallKind,
  call,
  callsContender,
  own,
  proxied,
  startCalled,
  startSeeded,
} from '../lib/gateway-servers.ts'
import { verifyLoad } from '../lib/http-load.ts'
import { Shared } from '../lib/shared.ts'

const gateways = 2
/** For each process that serves: the same number of answers in one turn of its loop. */
const connectionsEach = 64
const opened = 400
const waitMs = 30_000
const steadyMs = 1_000
const warmUpSeconds = 0.5

const one = 'one process'
const several = `${gateways} gateways and their hub`
const even = `connections at the emptiest of ${gateways} gateways, of ${opened}`
const back = 'a gateway up again after kill -9'

const single = new Shared(() => startCalled())
const hub = new Shared(startHub)

async function startHub(): Promise<Called> {
  const postgres = await startSeeded()
  try {
    const called = await startCalled(postgres.url, [`--gateways=${gateways}`])
    const pids = async () => [called.pid, ...(await gatewaysOf(called)).map(({ pid }) => pid)]
    const stop = async () => {
      await called.stop()
      postgres.dispose()
    }
    return { ...called, pids, stop }
  } catch (error) {
    postgres.dispose()
    throw error
  }
}

interface Gateway {
  readonly name: string
  readonly state: string
  readonly pid: number
}

async function gatewaysOf({ data }: Called): Promise<Gateway[]> {
  const answer = await askOperator(data, 'status')
  if (!answer.ok) throw new Error(answer.message)
  const { gateways } = answer.value as { gateways: Gateway[] }
  return gateways.filter(({ pid }) => pid !== null)
}

function contender(name: string, kind: CallKind, server: Shared<Called>): Contender {
  const connections = server === hub ? connectionsEach * gateways : connectionsEach
  return callsContender(name, kind, server, { connections, missing: postgresMissing })
}

/** Counts each gateway's descriptors before and after. */
async function spread(called: Called): Promise<Measurement> {
  const pids = (await gatewaysOf(called)).map(({ pid }) => pid)
  const countOf = (pid: number) => readdirSync(`/proc/${pid}/fd`).length
  let before = pids.map(countOf)
  const isSteady = async () => {
    const last = before
    await sleep(steadyMs)
    before = pids.map(countOf)
    return before.every((count, index) => count === last[index])
  }
  await until(isSteady, 'the end of earlier connections', waitMs)
  const added = () => pids.map((pid, index) => countOf(pid) - before[index]!)
  const sum = () => added().reduce((total, count) => total + count, 0)
  const sockets: Socket[] = []
  try {
    for (let count = 0; count < opened; count++) {
      const socket = connect(called.doors.rpc!.port, '127.0.0.1')
      socket.on('error', () => {})
      sockets.push(socket)
    }
    await until(() => sum() >= opened, 'the connections', waitMs)
    const counts = added()
    return { opsPerSecond: Math.min(...counts), evidence: { answers: counts.length, wrong: 0 } }
  } finally {
    for (const socket of sockets) socket.destroy()
    await until(() => sum() <= 0, 'their end', waitMs)
  }
}

async function killOne(called: Called, { smoke }: RoundContext): Promise<Measurement> {
  const [victim] = await gatewaysOf(called)
  const startMs = performance.now()
  process.kill(victim!.pid, 'SIGKILL')
  const isBack = ({ name, state, pid }: Gateway) =>
    name === victim!.name && state === 'up' && pid !== victim!.pid
  await until(async () => (await gatewaysOf(called)).some(isBack), 'the gateway', waitMs)
  const us = (performance.now() - startMs) * 1000
  // The new process compiles its code before it is measured.
  for (const kind of smoke === true ? [] : [own, proxied])
    await call(called, kind, connectionsEach * gateways, warmUpSeconds)
  return {
    opsPerSecond: 1e6 / us,
    latencyUs: { p50: us, p99: us, p999: us },
    evidence: { answers: 1, wrong: 0 },
  }
}

type Run = (called: Called, context: RoundContext) => Promise<Measurement>

const ofHub = (name: string, run: Run): Contender => ({
  name,
  missing: postgresMissing,
  run: async (context) => run(await hub.get(context), context),
  close: () => hub.stop(),
})

export const bench: Bench = {
  name: 'gateways',
  question: 'What do calls per second of one core lose when several gateways share the ports?',
  cores: 4,
  baseline: contender(`own answer, ${one}`, own, single),
  candidates: [
    contender(`own answer, ${several}`, own, hub),
    contender(`proxied call, ${one}`, proxied, single),
    contender(`proxied call, ${several}`, proxied, hub),
    ofHub(even, spread),
    ofHub(back, killOne),
  ],
  goals: [
    ...['own answer', 'proxied call'].map((kind) => ({
      contender: `${kind}, ${several}`,
      to: `${kind}, ${one}`,
      figure: 'opsPerSecond' as const,
      atLeast: 0.95,
    })),
    { contender: even, figure: 'opsPerSecond', atLeast: (0.8 * opened) / gateways },
    { contender: back, figure: 'p50', atMost: 2_000_000 },
  ],
  smoke: [`own answer, ${several}`, `proxied call, ${several}`, even, back],
  verify: verifyLoad,
}
