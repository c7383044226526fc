// Frames per second of processor time that an observer of `sluice bench race` takes in, beside a
// bare HTTP/2 client that only counts bytes: what one core can observe.
// Thread: main of the bench process; streams and observers are processes of their own.
import { setTimeout as sleep } from 'node:timers/promises'
import { type BenchProcess, startProcess } from '../../test/testkit/process.ts'
import type { Bench, Contender } from '../lib/bench.ts'
import type { NodeShape } from './clients/geyser-node.ts'
import type { Observed } from './clients/stream-observers.ts'

const shape: NodeShape = { length: 400, perSlot: 1_000, transactions: 0, perFrame: 1 }
/** A message and its gRPC prefix. */
const messageBytes = shape.length + 5
/** Beyond what any of them takes: the stream is sent as fast as it is read. */
const pace = 1_000_000

export const bench: Bench = {
  name: 'observe',
  question: 'How many frames of a stream can one core of `sluice bench race` observe per second?',
  cores: 2,
  baseline: contender('node:http2, bytes counted', 'bare'),
  candidates: [
    contender('race, geyser, account writes of 400 B', 'geyser'),
    contender('race, websocket, logs of 350 B', 'websocket'),
  ],
  verify: ({ evidence }) => (Number(evidence?.frames) > 0 ? undefined : 'no frames came'),
}

function contender(name: string, kind: 'bare' | 'geyser' | 'websocket'): Contender {
  let sender: BenchProcess
  let observer: BenchProcess
  const clients = new URL('./clients/stream-observers.js', import.meta.url)
  const node = new URL('./clients/geyser-node.js', import.meta.url)
  return {
    name,
    missing: ({ target }) => (target === undefined ? undefined : 'sends the stream itself'),
    async prepare() {
      sender = startProcess(kind === 'websocket' ? clients : node)
    },
    // A new observer for each round: no stream runs while another contender is measured.
    async run({ seconds, smoke }) {
      observer = startProcess(clients)
      const isPubsub = kind === 'websocket'
      const port = await sender.call<number>(isPubsub ? 'sendLogs' : 'open', shape)
      if (!isPubsub) await sender.call('pace', pace)
      await observer.call(kind, `${isPubsub ? 'ws' : 'http'}://127.0.0.1:${port}`)
      if (smoke !== true) await sleep(300)
      const before = await observer.call<Observed>('counts')
      let after = before
      do {
        await sleep(seconds * 1000)
        after = await observer.call<Observed>('counts')
      } while (after.frames === before.frames && after.bytes === before.bytes)
      await observer.stop()
      if (!isPubsub) await sender.call('pace', 0)
      const counted = kind === 'bare' ? (after.bytes - before.bytes) / messageBytes : 0
      const frames = kind === 'bare' ? counted : after.frames - before.frames
      const cpuSeconds = after.cpuSeconds - before.cpuSeconds
      return { opsPerSecond: frames / cpuSeconds, evidence: { frames } }
    },
    async close() {
      await observer?.stop()
      await sender.stop()
    },
  }
}
