// The two ends of the ring benches, each in a worker: one writes, one reads. Started by
// bench/micro/ring.ts and ring-latency.ts. Thread: a bench worker.
import { type MessagePort, parentPort, workerData } from 'node:worker_threads'
import type { RingDescriptor } from '../../../src/base/rings/layout.ts'
import { RingReader, RingWriter } from '../../../src/base/rings/ring.ts'
import { Latencies } from '../../../src/loadtest/latencies.ts'
import { latencyUsOf } from '../../lib/bench.ts'

export interface EndsWork {
  readonly role: 'write' | 'read' | 'post' | 'receive'
  /** Records before each publish. */
  readonly batch: number
  readonly words: number
  readonly seconds: number
  readonly measures: 'throughput' | 'latency'
  readonly waits: 'poll' | 'wait' | 'waitAsync'
  readonly ring?: RingDescriptor
  readonly port?: MessagePort
}

export interface EndsAnswer {
  readonly count: number
  readonly sum: number
  readonly tookNs: number
  readonly latencies: { count: number; us: ReturnType<typeof latencyUsOf> } | null
}

/** Between two records of a latency run. */
const paceNs = 50_000
/** Records of a latency run that go ahead unpaced and untimed, until both ends are compiled. */
const warmUps = 50_000
const postedUnreadMax = 1024
const readerSleepMs = 1000

const work = workerData as EndsWork
// performance.now is the cheaper clock, but each thread has its own zero: measured against the
// common one, between the two readings of it that lay closest together.
const zeroNs = commonZeroNs()
const now = () => zeroNs + performance.now() * 1e6
const isLatency = work.measures === 'latency'
const histogram = new Latencies()

// Before the writer starts: it waits for readers that have taken their lease, and for no others.
const reader =
  work.role === 'read' ? new RingReader(work.ring!, { from: 'oldest', lease: 0 }) : null

const roles = { write, read: () => read(reader!), post, receive }
// The bench starts the clock of both ends at once, when both are up.
parentPort!.once('message', async () => {
  const startedNs = now()
  const { count, sum, firstNs } = await roles[work.role]()
  const tookNs = now() - (firstNs ?? startedNs)
  const latencies = isLatency ? { count: histogram.count, us: latencyUsOf(histogram) } : null
  parentPort!.postMessage({ count, sum, tookNs, latencies } satisfies EndsAnswer)
  work.port?.close()
})
parentPort!.postMessage('ready')

function commonZeroNs(): number {
  let best = { gapNs: Number.POSITIVE_INFINITY, zeroNs: 0 }
  for (let attempt = 0; attempt < 1000; attempt += 1) {
    const before = Number(process.hrtime.bigint())
    const own = performance.now() * 1e6
    const after = Number(process.hrtime.bigint())
    const gapNs = after - before
    if (gapNs < best.gapNs) best = { gapNs, zeroNs: (before + after) / 2 - own }
  }
  return best.zeroNs
}

/** What one record adds to the checksum: first, last and one word that differs each time. */
function checksum(seq: number): number {
  const last = work.words - 1
  return (3 * seq + last + (seq & last)) | 0
}

interface Done {
  readonly count: number
  readonly sum: number
  readonly firstNs?: number
}

function write(): Done {
  const writer = RingWriter.resume(work.ring!)
  const { words, batch } = work
  const record = new Int32Array(words)
  const payload = new Uint8Array(record.buffer)
  const time = new Float64Array(record.buffer, 0, 1)
  const last = words - 1
  const end = now() + work.seconds * 1e9
  let seq = 0
  let sum = 0
  for (;;) {
    if (isLatency && seq > warmUps) {
      const due = now() + paceNs
      while (now() < due);
      if (now() > end) break
    } else if (!isLatency && (seq & 255) === 0 && now() > end) break
    for (let index = 0; index < batch; index += 1) {
      while (!writer.fits(payload.length)) writer.waitFits(payload.length, 1)
      if (isLatency) time[0] = seq > warmUps ? now() : 0
      else {
        // The words that the checksum looks at; the others travel along.
        record[seq & last] = seq + (seq & last)
        record[0] = seq
        record[last] = seq + last
        sum = (sum + checksum(seq)) | 0
      }
      writer.write(seq, payload)
      seq = (seq + 1) | 0
    }
    writer.publish()
  }
  writer.close()
  return { count: seq, sum }
}

async function read(reader: RingReader): Promise<Done> {
  const last = work.words - 1
  const { data } = reader
  const times = new Float64Array(data.buffer, data.byteOffset, data.length / 2)
  let count = 0
  let sum = 0
  let firstNs = 0
  // waitAsync keeps no event loop alive.
  const alive = setInterval(() => {}, readerSleepMs)
  for (;;) {
    if (reader.poll() === 0) {
      if (reader.isAtEnd) {
        clearInterval(alive)
        return { count, sum, firstNs }
      }
      if (work.waits === 'wait') reader.wait(readerSleepMs)
      else if (work.waits === 'waitAsync') await reader.waitAsync(readerSleepMs)
      continue
    }
    if (firstNs === 0) firstNs = now()
    while (reader.next()) {
      const at = reader.offset >> 2
      if (isLatency) {
        const sentNs = times[at >> 1]!
        if (sentNs > 0) histogram.record((now() - sentNs) / 1e6)
        else firstNs = now()
      } else sum = (sum + data[at]! + data[at + last]! + data[at + (reader.tag & last)]!) | 0
      count += 1
    }
    if (!reader.commit()) throw new Error('overrun in spite of a lease')
  }
}

/** postMessage with a bounded number unread, as any real use of it must have. */
async function post(): Promise<Done> {
  const port = work.port!
  const end = now() + work.seconds * 1e9
  let unread = 0
  port.on('message', (read: number) => {
    unread -= read
  })
  let seq = 0
  let sum = 0
  while (now() < end) {
    for (let index = 0; index < 64 && unread < postedUnreadMax; index += 1) {
      if (isLatency) {
        const due = now() + paceNs
        while (now() < due);
        port.postMessage(now())
      } else {
        const record = new Int32Array(work.words)
        for (let word = 0; word < work.words; word += 1) record[word] = seq + word
        port.postMessage(record)
        sum = (sum + checksum(seq)) | 0
      }
      seq += 1
      unread += 1
    }
    await new Promise(setImmediate)
  }
  port.postMessage(null)
  return { count: seq, sum }
}

function receive(): Promise<Done> {
  const port = work.port!
  const last = work.words - 1
  let count = 0
  let sum = 0
  let firstNs = 0
  return new Promise((resolve) => {
    port.on('message', (record: Int32Array | number | null) => {
      if (record === null) return resolve({ count, sum, firstNs })
      if (firstNs === 0) firstNs = now()
      if (typeof record === 'number') histogram.record((now() - record) / 1e6)
      else sum = (sum + record[0]! + record[last]! + record[count & last]!) | 0
      count += 1
      if (count % 256 === 0) port.postMessage(256)
    })
  })
}
