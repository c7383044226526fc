// Processor time of a server at its default traffic, at rest and while it records itself: one server,
// in turns. Thread: main of the bench process; the server and its chain are processes of their own.
// An operation is a second of service: the rows differ by what a second of recording costs the
// server's process, all its threads and the recorder's among them.
import { statSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { askOperator } from '../../src/base/transport/unix-socket.ts'
import type { Bench, Contender, Measurement } from '../lib/bench.ts'
import { ownProcessorSeconds } from '../lib/processor-time.ts'
import { startWholeServer, type WholeServer } from '../lib/whole-server.ts'

const resting = 'at rest'
const recording = 'recording'
const settleMs = 5_000

export const bench: Bench = {
  name: 'record',
  question: 'What does a flight recording at default traffic cost of a core?',
  cores: 2,
  seconds: 10,
  baseline: contender(resting, async () => {}),
  candidates: [contender(recording, startRecording)],
  // The promise: less than 3 % of a core.
  goals: [{ contender: recording, minus: resting, figure: 'cpuUsPerOp', atMost: 30_000 }],
  smoke: [recording],
  verify: ({ evidence }, name) => {
    if (name === resting) return undefined
    return Number(evidence?.bytes) > 0 ? undefined : 'nothing was recorded'
  },
}

type Start = (server: WholeServer, file: string) => Promise<void>

/** Of both contenders. */
let shared: Promise<WholeServer> | null = null

async function startShared(isSmoke: boolean): Promise<WholeServer> {
  const server = await startWholeServer(['--indexer.enabled=false'], { subscription: null })
  if (!isSmoke) await sleep(settleMs)
  return server
}

async function stopShared(): Promise<void> {
  const server = shared
  shared = null
  await (await server)?.stop()
}

function contender(name: string, start: Start): Contender {
  let rounds = 0
  return {
    name,
    async prepare({ smoke }) {
      shared ??= startShared(smoke === true)
      await shared
    },
    async run({ seconds }): Promise<Measurement> {
      const server = (await shared)!
      const { pid, data } = server
      const file = join(data, `${rounds++}.rec`)
      await start(server, file)
      // No thread ends in between: the recorder's does afterwards.
      const before = ownProcessorSeconds(pid)
      const began = performance.now()
      await sleep(seconds * 1_000)
      const cores = (ownProcessorSeconds(pid) - before) / ((performance.now() - began) / 1_000)
      await askOperator(data, 'record-stop')
      const bytes = statSync(file, { throwIfNoEntry: false })?.size ?? 0
      const cpuUsPerOp = cores * 1e6
      return { opsPerSecond: 1 / Math.max(cores, 0.001), cpuUsPerOp, evidence: { cores, bytes } }
    },
    close: stopShared,
  }
}

/** By the operator's socket alone: the command would also seal it, afterwards. */
async function startRecording({ data }: WholeServer, path: string): Promise<void> {
  const request = { path, forMs: 3_600_000, bytesMax: 1e10, calls: 'digest' }
  const answer = await askOperator(data, 'record', request)
  if (!answer.ok || typeof answer.value === 'string')
    throw new Error(`no recording: ${JSON.stringify(answer)}`)
}
