// From the end of a block to its frame in a client, beside bare publishing of the same bytes.
// Thread: main of the bench process; sender and receiver are processes of their own.

import { type BenchProcess, startProcess } from '../../test/testkit/process.ts'
import type { Bench, Contender, Measurement } from '../lib/bench.ts'
import { compilerMissing } from '../lib/native.ts'
import { runSink } from '../lib/ws-sink.ts'
import type { SenderKind, Sending, Sent } from './clients/metrics-servers.ts'

/** A ContentionData frame of the real recording has 7.9 kB. Few clients get more blocks, so that
 *  there are enough frames for a p99. */
const loads = [
  { sockets: 1, blockMs: 10 },
  { sockets: 100, blockMs: 100 },
  { sockets: 1000, blockMs: 400 },
] as const
const payloadBytes = 7900
/** How long the receiver waits for the last frame. */
const lateSecondsMax = 30

const nameOf = (kind: SenderKind, sockets: number) =>
  `${kind === 'bare' ? 'bare publish' : 'metrics stream'}, ${sockets.toLocaleString('en')}`

const contenders = loads.flatMap((load) =>
  (['bare', 'stream'] as const).map((kind) => contender(kind, load)),
)

export const bench: Bench = {
  name: 'metrics-delivery',
  question: 'How long does a frame take from the end of its block to 1, 100 and 1,000 clients?',
  cores: 2,
  baseline: contenders[0]!,
  candidates: contenders.slice(1),
  goals: loads.flatMap(({ sockets }) =>
    (['p50', 'p99'] as const).map((figure) => ({
      contender: nameOf('stream', sockets),
      to: nameOf('bare', sockets),
      figure,
      atMost: 1.5,
    })),
  ),
  smoke: (['bare', 'stream'] as const).map((kind) => nameOf(kind, loads[1].sockets)),
  verify: ({ evidence }) =>
    evidence?.gaps === 0 && evidence.frames === evidence.due
      ? undefined
      : `frames were lost: ${JSON.stringify(evidence)}`,
}

function contender(kind: SenderKind, load: { sockets: number; blockMs: number }): Contender {
  let child: BenchProcess
  let port = 0
  return {
    name: nameOf(kind, load.sockets),
    missing: ({ target }) =>
      target === undefined ? compilerMissing() : 'measures a server of its own',
    async prepare() {
      child = startProcess(new URL('./clients/metrics-servers.js', import.meta.url))
      port = await child.call<number>('open', kind)
    },
    run: ({ seconds }) => deliver(child, port, load, seconds),
    close: () => child.stop(),
  }
}

async function deliver(
  child: BenchProcess,
  port: number,
  { sockets, blockMs }: { sockets: number; blockMs: number },
  seconds: number,
): Promise<Measurement> {
  let sent: Sent = { frames: 0, last: 0 }
  const sending: Sending = { blockMs, seconds, payloadBytes, framesPerTurn: 1 }
  const path = '/v1/ws?events=ContentionData'
  const sink = await runSink(
    { port, path, sockets, seconds: seconds + lateSecondsMax },
    async () => {
      sent = await child.call<Sent>('send', sending)
      return sent.last
    },
  )
  return {
    opsPerSecond: (sent.frames * sockets) / seconds,
    latencyUs: sink,
    evidence: { frames: sink.frames, due: sent.frames * sockets, gaps: sink.gaps },
  }
}
