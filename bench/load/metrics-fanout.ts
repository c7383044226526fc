// Deliveries per second of the metrics stream to 100 and 1,000 clients that read as fast as they
// can, beside bare publishing and beside a C program that only writes.
// Thread: main of the bench process; senders and receivers are processes of their own.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { type BenchProcess, startProcess } from '../../test/testkit/process.ts'
import type { Bench, Contender } from '../lib/bench.ts'
import { buildNative, compilerMissing } from '../lib/native.ts'
import { runSink, type SinkResult } from '../lib/ws-sink.ts'
import type { SenderKind, Sending, Sent } from './clients/metrics-servers.ts'

const payloadBytes = 500
/** How long the receiver waits for the last frame. */
const lateSecondsMax = 30
/** Frames that one write of a socket carries: what a turn of the stream joins at that load. */
const loads = [
  { sockets: 100, framesPerTurn: 2 },
  { sockets: 1000, framesPerTurn: 1 },
] as const
type Load = (typeof loads)[number]

const nameOf = (kind: string, { sockets }: Load) => `${kind}, ${sockets.toLocaleString('en')}`
const native = 'C write'
const bare = 'bare publish'
const ours = 'metrics stream'

const contenders = loads.flatMap((load) => [
  nativeContender(load),
  senderContender('bare', load),
  senderContender('stream', load),
])

export const bench: Bench = {
  name: 'metrics-fanout',
  question: 'How many frames per second reach 100 and 1,000 clients?',
  cores: 2,
  baseline: contenders[1]!,
  candidates: contenders.filter((_, index) => index !== 1),
  goals: loads.map((load) => ({
    contender: nameOf(ours, load),
    to: nameOf(native, load),
    figure: 'opsPerSecond',
    atLeast: 0.7,
  })),
  smoke: [native, bare, ours].map((kind) => nameOf(kind, loads[0])),
  verify: ({ evidence }) =>
    evidence?.gaps === 0 && Number(evidence.frames) > 0
      ? undefined
      : `frames were lost: ${JSON.stringify(evidence)}`,
}

function senderContender(kind: SenderKind, load: Load): Contender {
  let child: BenchProcess
  let port = 0
  return {
    name: nameOf(kind === 'bare' ? bare : ours, load),
    missing: ({ target }) =>
      target === undefined ? compilerMissing() : 'measures a server of its own',
    async prepare() {
      child = startProcess(new URL('./clients/metrics-servers.js', import.meta.url))
      port = await child.call<number>('open', kind)
    },
    async run({ seconds }) {
      const { sockets, framesPerTurn } = load
      const sending: Sending = { blockMs: 0, seconds, payloadBytes, framesPerTurn }
      const path = '/v1/ws?events=ContentionData'
      const sink = await runSink(
        { port, path, sockets, seconds: seconds + lateSecondsMax },
        async () => {
          const { last } = await child.call<Sent>('send', sending)
          return last
        },
      )
      return measured(sink)
    },
    close: () => child.stop(),
  }
}

function nativeContender(load: Load): Contender {
  return {
    name: nameOf(native, load),
    missing: ({ target }) =>
      target === undefined ? compilerMissing() : 'measures a server of its own',
    async run({ seconds }) {
      const { sockets, framesPerTurn } = load
      const program = await buildNative('ws-fan')
      const port = await freePort()
      const words = [port, sockets, seconds, payloadBytes + 40, framesPerTurn].map(String)
      const child = spawn(program, words, { stdio: ['ignore', 'pipe', 'inherit'] })
      const ended = once(child, 'close')
      await once(child.stdout, 'data')
      const sink = await runSink({ port, path: '/', sockets, seconds: seconds + lateSecondsMax })
      await ended
      return measured(sink)
    },
  }
}

function measured(sink: SinkResult) {
  const { frames, gaps, span } = sink
  return { opsPerSecond: frames / span, evidence: { frames, gaps } }
}

async function freePort(): Promise<number> {
  const { createServer } = await import('node:net')
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  server.close()
  await once(server, 'close')
  return typeof address === 'object' && address !== null ? address.port : 0
}
