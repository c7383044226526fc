// From the arrival of a shred to the reading of its copies at 1, 8 and 64 destinations: our worker
// with all its checks, beside a C forwarder that checks nothing and beside Node's sockets.
// Thread: main of the bench process. The probe is one C thread that sends and reads.

import { startProcess } from '../../test/testkit/process.ts'
import type { Bench, Contender } from '../lib/bench.ts'
import { compilerMissing } from '../lib/native.ts'
import { freePort, type NetAnswer, runNet, startNet } from '../lib/shred-net.ts'
import type { ServerInput } from './clients/shred-server.ts'

const rates: Readonly<Record<number, number>> = { 1: 10_000, 8: 5000, 64: 1500 }
/** So few that a socket's buffer holds all copies, on any machine. */
const smokeRate = 400
type Way = 'ours' | 'ours, polling' | 'dgram' | 'C' | 'C, polling'

function contender(way: Way, targets: number): Contender {
  return {
    name: `${way}, ${targets}`,
    missing: compilerMissing,
    async run({ seconds, smoke }) {
      const rate = smoke === true ? smokeRate : rates[targets]!
      const probed = { rate, targets, seconds }
      const answer = await (way.startsWith('C') ? probeC : probeOurs)(way, probed)
      const { packets = 0, copies = 0, p50 = 0, p99 = 0, p999 = 0 } = answer
      return {
        opsPerSecond: copies / seconds,
        latencyUs: { p50, p99, p999 },
        evidence: { expected: packets * targets, copies },
      }
    },
  }
}

interface Probed {
  readonly rate: number
  readonly targets: number
  readonly seconds: number
}

async function probeC(way: Way, { rate, targets, seconds }: Probed): Promise<NetAnswer> {
  const [inPort, outPort] = [await freePort(), await freePort()]
  const waits = way === 'C' ? 'block' : 'poll'
  const forwarder = await startNet('forward', waits, targets, inPort, outPort)
  const answer = await runNet('probe', rate, targets, seconds, inPort, outPort)
  await forwarder.stop()
  return answer
}

async function probeOurs(way: Way, { rate, targets, seconds }: Probed): Promise<NetAnswer> {
  const outPort = await freePort()
  const server = startProcess(new URL('./clients/shred-server.js', import.meta.url))
  try {
    const input: ServerInput = {
      io: way === 'dgram' ? 'dgram' : way === 'ours' ? 'batch' : 'poll',
      targets,
      outPort,
    }
    const inPort = await server.call<number>('start', input)
    const answer = await runNet('probe', rate, targets, seconds, inPort, outPort)
    await server.call('stop')
    return answer
  } finally {
    await server.stop()
  }
}

export const bench: Bench = {
  name: 'shred-latency',
  question: 'How long after a shred came in do 1, 8 and 64 destinations have it?',
  cores: 3,
  baseline: contender('dgram', 8),
  candidates: [
    contender('ours', 1),
    contender('C', 1),
    contender('ours', 8),
    contender('C', 8),
    contender('ours, polling', 8),
    contender('C, polling', 8),
    contender('ours', 64),
    contender('C', 64),
  ],
  goals: [
    ...[1, 8, 64].flatMap((count) => [
      { contender: `ours, ${count}`, to: `C, ${count}`, figure: 'p50', atMost: 1.2 } as const,
      { contender: `ours, ${count}`, to: `C, ${count}`, figure: 'p99', atMost: 1.5 } as const,
    ]),
    { contender: 'ours, polling, 8', to: 'C, polling, 8', figure: 'p50', atMost: 1.2 },
    { contender: 'ours, 8', to: 'dgram, 8', figure: 'p50', atMost: 0.5 },
  ],
  smoke: ['dgram, 8', 'ours, 8', 'C, 8', 'ours, polling, 8'],
  verify({ evidence }, name) {
    const { expected, copies } = evidence as { expected: number; copies: number }
    if (copies === 0) return 'nothing arrived'
    // Node's sockets may lose some; ours and C may not.
    const isLossAllowed = name.startsWith('dgram')
    return copies === expected || isLossAllowed ? undefined : `${expected} sent, ${copies} arrived`
  },
}
