// Runs the two ends of a ring bench in two workers and joins their answers.
// Thread: main of the bench process. Called by bench/micro/ring.ts and ring-latency.ts.
import { once } from 'node:events'
import { MessageChannel, Worker } from 'node:worker_threads'
import { allocateRing } from '../../src/base/rings/layout.ts'
import { RingWriter } from '../../src/base/rings/ring.ts'
import type { EndsAnswer, EndsWork } from '../micro/ends/ring-ends.ts'
import type { Contender, Measurement } from './bench.ts'
import { buildNative, compilerMissing, runNative } from './native.ts'

/** 4096 records of 128 bytes with their headers, as many as the C ring has slots. */
const ringBytes = 1024 * 1024

type Way = Omit<EndsWork, 'role' | 'seconds' | 'ring' | 'port' | 'measures' | 'words'>

export function ringContender(
  name: string,
  about: Way & Pick<EndsWork, 'measures' | 'words'>,
): Contender {
  return {
    name,
    async run({ seconds }) {
      const ring = allocateRing(ringBytes)
      RingWriter.create(ring)
      const [written, read] = await runEnds(
        { ...about, seconds, ring, role: 'write' },
        { ...about, seconds, ring, role: 'read' },
      )
      return join(written, read)
    },
  }
}

export function postMessageContender(
  name: string,
  about: Pick<EndsWork, 'measures' | 'words'>,
): Contender {
  return {
    name,
    async run({ seconds }) {
      const { port1, port2 } = new MessageChannel()
      const shared = { ...about, seconds, batch: 1, waits: 'poll' } as const
      const [written, read] = await runEnds(
        { ...shared, port: port1, role: 'post' },
        { ...shared, port: port2, role: 'receive' },
      )
      return join(written, read)
    },
  }
}

export function nativeContender(name: string, mode: string, words: number): Contender {
  return {
    name,
    missing: compilerMissing,
    async run({ seconds }): Promise<Measurement> {
      const { ops, p50, p99, p999, ...evidence } = await runNative(await buildNative('ring'), [
        mode,
        seconds,
        words,
      ])
      if (p50 === undefined || p99 === undefined || p999 === undefined)
        return { opsPerSecond: ops!, evidence }
      return { opsPerSecond: ops!, latencyUs: { p50, p99, p999 }, evidence }
    },
  }
}

/** Every record arrived, and what arrived is what was written. */
export function verifyEnds({ evidence }: Measurement): string | undefined {
  const { written = 0, read, writtenSum, readSum } = evidence ?? {}
  if (written === 0) return 'nothing was written'
  if (written !== read) return `${written} records written, ${read} read`
  if (writtenSum !== readSum) return 'the checksums differ'
  return undefined
}

async function runEnds(writes: EndsWork, reads: EndsWork): Promise<[EndsAnswer, EndsAnswer]> {
  const workers = [writes, reads].map(startEnd)
  try {
    await Promise.all(workers.map((worker) => once(worker, 'message')))
    const answers = workers.map(answerOf)
    for (const worker of workers) worker.postMessage('go')
    return (await Promise.all(answers)) as [EndsAnswer, EndsAnswer]
  } finally {
    await Promise.all(workers.map((worker) => worker.terminate()))
  }
}

function startEnd(work: EndsWork): Worker {
  return new Worker(new URL('../micro/ends/ring-ends.js', import.meta.url), {
    workerData: work,
    ...(work.port === undefined ? {} : { transferList: [work.port] }),
  })
}

/** A worker that ends without an answer must fail the bench, not hang it. */
function answerOf(worker: Worker): Promise<EndsAnswer> {
  return new Promise((resolve, reject) => {
    worker.once('message', resolve)
    worker.once('error', reject)
    worker.once('exit', () => reject(new Error('an end stopped without an answer')))
  })
}

function join(written: EndsAnswer, read: EndsAnswer): Measurement {
  const evidence = {
    written: written.count,
    writtenSum: written.sum,
    read: read.count,
    readSum: read.sum,
  }
  const opsPerSecond = (read.count / read.tookNs) * 1e9
  if (read.latencies === null) return { opsPerSecond, evidence }
  const { count, us } = read.latencies
  return { opsPerSecond: (count / read.tookNs) * 1e9, latencyUs: us, evidence }
}
