// How fast a client that was away gets what it missed: 1,000, 10,000 and 100,000 frames of the mix
// of the real stream, beside a server that encodes each frame anew for each client.
// Thread: main of the bench process; senders and receivers are processes of their own.

import { type BenchProcess, startProcess } from '../../test/testkit/process.ts'
import type { Bench, Contender } from '../lib/bench.ts'
import { compilerMissing } from '../lib/native.ts'
import { runSink } from '../lib/ws-sink.ts'

const bufferBytesMax = 256 * 1024 * 1024
const away = [1000, 10_000, 100_000] as const
const anew = 'encoded anew for each client, 10,000'
const nameOf = (frames: number) => `resume of ${frames.toLocaleString('en')}`

interface Filled {
  readonly oldest: number
  readonly newest: number
  readonly bytes: number
}

export const bench: Bench = {
  name: 'metrics-resume',
  question: 'How many missed frames per second does a client get that comes back?',
  cores: 2,
  baseline: contender(anew, 10_000, 'resume-server'),
  candidates: away.map((frames) => contender(nameOf(frames), frames, 'metrics-servers')),
  smoke: [anew, nameOf(away[1])],
  verify: ({ evidence }) => {
    if (evidence?.gaps !== 0 || evidence.frames !== evidence.due)
      return `frames were lost or repeated: ${JSON.stringify(evidence)}`
    return Number(evidence.bytes) <= bufferBytesMax ? undefined : 'the buffer is over its bound'
  },
}

function contender(name: string, frames: number, entry: string): Contender {
  let child: BenchProcess
  let port = 0
  let filled: Filled
  return {
    name,
    missing: ({ target }) =>
      target === undefined ? compilerMissing() : 'measures a server of its own',
    async prepare({ smoke }) {
      child = startProcess(new URL(`./clients/${entry}.js`, import.meta.url))
      port = await child.call<number>('open', 'stream')
      filled = await child.call<Filled>('fill', smoke === true ? away[1] : away[2])
    },
    async run({ seconds }) {
      const { newest, bytes } = filled
      const path = `/v1/ws?resume_from=${newest - frames}`
      const began = performance.now()
      let runs = 0
      let elapsed = 0
      let total = { frames: 0, gaps: 0 }
      do {
        const sink = await runSink({ port, path, sockets: 1, seconds: 30, lastSeq: newest })
        total = { frames: total.frames + sink.frames, gaps: total.gaps + sink.gaps }
        elapsed += sink.elapsed
        runs++
      } while (performance.now() - began < seconds * 1000)
      const us = (elapsed / runs) * 1e6
      return {
        opsPerSecond: total.frames / elapsed,
        latencyUs: { p50: us, p99: us, p999: us },
        evidence: { ...total, due: runs * frames, bytes },
      }
    },
    close: () => child.stop(),
  }
}
