// What eight strangers at the metrics service cost the customers of the other endpoints: latency of
// rpc, tpu and websocket calls with and without them. Thread: main of the bench process; server,
// strangers and customer are processes of their own.
import { constants, setPriority } from 'node:os'
import { startProcess } from '../../test/testkit/process.ts'
import type { Bench, Contender, Measurement, RoundContext } from '../lib/bench.ts'
import { startWholeServer } from '../lib/whole-server.ts'
import type { Attacked } from './clients/attackers.ts'
import type { Endpoints, Waited } from './clients/bystander.ts'

/** What the generator makes by default, and the most that it can. */
const loads = [515, 10_000] as const
const warmUpSeconds = 1
const unused = ['--grpc.enabled=false', '--shredstream.enabled=false', '--chain.traffic=0']

const nameOf = (tps: number, isAttacked: boolean) =>
  `${tps.toLocaleString('en')} TPS, ${isAttacked ? 'eight strangers' : 'nobody else'}`

const contenders = loads.flatMap((tps) => [contender(tps, false), contender(tps, true)])

export const bench: Bench = {
  name: 'metrics-attack',
  question: 'How long do the other endpoints take while strangers ask for all blocks they can get?',
  cores: 4,
  baseline: contenders[0]!,
  candidates: contenders.slice(1),
  goals: loads.map((tps) => ({
    contender: nameOf(tps, true),
    to: nameOf(tps, false),
    figure: 'p99' as const,
    atMost: 1.2,
  })),
  smoke: [nameOf(loads[0], true)],
  verify: ({ evidence }, name) => {
    if (evidence?.wrong !== 0) return `calls failed: ${JSON.stringify(evidence)}`
    const isAttacked = name.includes('strangers')
    const wasAttacked = Number(evidence.answered) > 0 && evidence.failed === 0
    return isAttacked && !wasAttacked ? `no attack: ${JSON.stringify(evidence)}` : undefined
  },
}

function contender(tps: number, isAttacked: boolean): Contender {
  return {
    name: nameOf(tps, isAttacked),
    missing: ({ target }) => (target === undefined ? undefined : 'measures a server of its own'),
    run: (context) => measure(tps, isAttacked, context),
  }
}

/** A server for each run: the strangers' budgets are full when they begin. */
async function measure(
  tps: number,
  isAttacked: boolean,
  { seconds, smoke }: RoundContext,
): Promise<Measurement> {
  const flags = [`--metrics.generator.tps=${tps}`, '--indexer.enabled=false']
  if (smoke === true) flags.push(...unused)
  const { doors, token, stop } = await startWholeServer(flags)
  const strangers = startProcess(new URL('./clients/attackers.js', import.meta.url))
  // Attackers have machines of their own: their computing must not take this machine's time.
  setPriority(strangers.pid, constants.priority.PRIORITY_LOW)
  const customer = startProcess(new URL('./clients/bystander.js', import.meta.url))
  try {
    const ports = {
      rpc: doors.rpc!.port,
      tpu: doors.tpu!.port,
      websocket: doors.websocket!.port,
      token,
    }
    const call = (asked: Endpoints) => customer.call<Waited>('wait', asked)
    if (smoke !== true) await call({ ...ports, seconds: warmUpSeconds })
    if (isAttacked) await strangers.call('start', doors.metrics!.port)
    const { all, p99, answers, wrong } = await call({ ...ports, seconds })
    const attacked = isAttacked ? await strangers.call<Attacked>('stop') : {}
    return {
      opsPerSecond: answers / seconds,
      latencyUs: all,
      evidence: { ...p99, wrong, ...attacked },
    }
  } finally {
    await Promise.all([strangers.stop(), customer.stop(), stop()])
  }
}
