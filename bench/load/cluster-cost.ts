// What a cluster costs a gateway: calls per second of processor time without cluster.url, with it,
// and while its PostgreSQL is stopped. Thread: main of the bench process; servers, node and client
// are processes of their own.
import { postgresMissing } from '../../test/cluster/postgres.ts'
import type { Bench, Goal } from '../lib/bench.ts'
import {
  type Called,
  type CallKind,
  callsContender,
  own,
  proxied,
  startCalled,
  startSeeded,
} from '../lib/gateway-servers.ts'
import { verifyLoad } from '../lib/http-load.ts'
import { Shared } from '../lib/shared.ts'

const connections = 64
const kinds: readonly (readonly [string, CallKind])[] = [
  ['own answer', own],
  ['proxied call', proxied],
]
const alone = 'without cluster.url'
const joined = 'with cluster.url'
const stopped = 'PostgreSQL stopped'

const ways: readonly (readonly [string, Shared<Called>])[] = [
  [alone, new Shared(() => startCalled())],
  [joined, new Shared(() => startJoined(false))],
  [stopped, new Shared(() => startJoined(true))],
]

/** On a PostgreSQL of its own: one that is stopped must not disturb the other gateway. */
async function startJoined(isStopped: boolean): Promise<Called> {
  const postgres = await startSeeded()
  try {
    const called = await startCalled(postgres.url)
    // SIGSTOP: connections stay open and answer nothing.
    if (isStopped) postgres.pause()
    const stop = async () => {
      await called.stop()
      postgres.dispose()
    }
    return { ...called, stop }
  } catch (error) {
    postgres.dispose()
    throw error
  }
}

const [baseline, ...candidates] = kinds.flatMap(([call, kind]) =>
  ways.map(([way, server]) =>
    callsContender(`${call}, ${way}`, kind, server, { connections, missing: postgresMissing }),
  ),
)

const goals = kinds.flatMap(([call]) =>
  [joined, stopped].flatMap((way): Goal[] => {
    const pair = { contender: `${call}, ${way}`, to: `${call}, ${alone}` }
    return [
      { ...pair, figure: 'opsPerSecond', atLeast: 0.98 },
      { ...pair, figure: 'p99', atMost: 1.02 },
    ]
  }),
)

export const bench: Bench = {
  name: 'cluster-cost',
  question: 'What do calls per second of one core lose by cluster.url, and without its PostgreSQL?',
  cores: 3,
  baseline: baseline!,
  candidates,
  goals,
  // What a gateway in a cluster does without its PostgreSQL is what it does with it, and more.
  smoke: kinds.map(([call]) => `${call}, ${stopped}`),
  verify: verifyLoad,
}
