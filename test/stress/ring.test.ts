// Rings between real threads: millions of records, a checksum of all that was read, losses
// counted exactly, readers and writers killed in the middle of their work.
import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import { describe, expect, it } from 'vitest'
import { allocateRing, leasePosition, type RingDescriptor } from '../../src/base/rings/layout.ts'
import { RingReader, RingWriter } from '../../src/base/rings/ring.ts'
import { caseCount } from '../testkit/case-count.ts'
import { until } from '../testkit/until.ts'

const entry = new URL('../testkit/workers/ring-ends.mjs', import.meta.url)

interface Work {
  readonly role: 'write' | 'read' | 'writeLong' | 'readLong'
  readonly ring?: RingDescriptor
  readonly records?: number
  readonly batch?: number
  readonly isLossless?: boolean
  readonly lease?: number
  /** The reader stalls for 2 ms after this many batches. */
  readonly stallEvery?: number
  readonly isAsync?: boolean
}

interface Read {
  readonly read: number
  readonly sum: number
  readonly wrong: number
  readonly first: number
  readonly end: number
  readonly lost: number
  readonly overruns: number
}

function formatted(capacityBytes: number): RingDescriptor {
  const ring = allocateRing(capacityBytes)
  RingWriter.create(ring)
  return ring
}

/** Starts a reader or writer thread; `answer` rejects when the thread dies without one. */
function startEnd<T>(work: Work): { worker: Worker; answer: Promise<T> } {
  const worker = new Worker(entry, { workerData: work })
  const answer = new Promise<T>((resolve, reject) => {
    worker.once('message', resolve)
    worker.once('error', reject)
    worker.once('exit', (code) => reject(new Error(`an end exited with ${code}`)))
  })
  answer.catch(() => {})
  return { worker, answer }
}

/** A reader must exist before the first record, or it would correctly start at a later one. */
async function leaseTaken(ring: RingDescriptor, lease: number): Promise<void> {
  await until(() => leasePosition(ring, lease) !== null, 'the reader takes its lease')
}

describe('ring between threads', () => {
  for (const isAsync of [false, true]) {
    const how = isAsync ? 'asleep in waitAsync' : 'asleep in wait'
    it(`passes every record without loss to a reader ${how}`, async () => {
      const ring = formatted(2 ** 18)
      const records = caseCount(400_000, 5_000_000)
      const reading = startEnd<Read>({ role: 'read', ring, lease: 0, isAsync })
      await leaseTaken(ring, 0)
      const shared = { role: 'write', ring, records, batch: 64, isLossless: true } as const
      const written = await startEnd<{ sum: number; count: number }>(shared).answer
      const read = await reading.answer
      expect(written.count).toBe(records)
      expect(read).toMatchObject({ read: records, wrong: 0, lost: 0, overruns: 0 })
      expect(read.sum).toBe(written.sum)
    })
  }

  it('counts exactly what slow readers lose, and never shows them a torn record', async () => {
    const ring = formatted(2 ** 14)
    const records = caseCount(500_000, 2_000_000)
    const readers = [undefined, 20].map((stallEvery) =>
      startEnd<Read>({ role: 'read', ring, ...(stallEvery === undefined ? {} : { stallEvery }) }),
    )
    await Promise.all(readers.map(({ worker }) => once(worker, 'online')))
    await startEnd({ role: 'write', ring, records, batch: 8 }).answer
    for (const { answer } of readers) {
      const { first, read, lost, wrong, end } = await answer
      expect(wrong).toBe(0)
      expect(end).toBe(records)
      expect(first + read + lost).toBe(records)
    }
    const slow = await readers[1]!.answer
    expect(slow.overruns).toBeGreaterThan(0)
    expect(slow.lost).toBeGreaterThan(0)
  })

  it('loses no record when a reader is killed and restarted', async () => {
    const ring = formatted(2 ** 16)
    const records = 1_500_000
    let reading = startEnd<Read>({ role: 'read', ring, lease: 1 })
    await leaseTaken(ring, 1)
    const shared = { role: 'write', ring, records, batch: 16, isLossless: true } as const
    const writing = startEnd<{ count: number }>(shared)
    const progress = new RingReader(ring, { from: 'newest' })
    for (let kill = 1; kill <= 4; kill += 1) {
      const due = kill * 200_000
      await until(() => countOf(progress) > due, 'the writer goes on')
      await reading.worker.terminate()
      reading = startEnd<Read>({ role: 'read', ring, lease: 1 })
    }
    expect((await writing.answer).count).toBe(records)
    const { first, read, end, wrong, lost } = await reading.answer
    expect({ wrong, lost, end }).toEqual({ wrong: 0, lost: 0, end: records })
    expect(first).toBeGreaterThan(0)
    expect(first + read).toBe(records)
  })

  it('loses no record when a writer is killed and another one takes over', async () => {
    const ring = formatted(2 ** 16)
    const records = 1_500_000
    const reading = startEnd<Read>({ role: 'read', ring, lease: 0 })
    await leaseTaken(ring, 0)
    const work = { role: 'write', ring, records, batch: 16, isLossless: true } as const
    let writing = startEnd<{ count: number }>(work)
    const progress = new RingReader(ring, { from: 'newest' })
    for (let kill = 1; kill <= 4; kill += 1) {
      const due = kill * 200_000
      await until(() => countOf(progress) > due, 'the writer goes on')
      await writing.worker.terminate()
      writing = startEnd<{ count: number }>(work)
    }
    expect((await writing.answer).count).toBe(records)
    const read = await reading.answer
    expect(read).toMatchObject({ read: records, wrong: 0, lost: 0, end: records })
  })

  it('continues large payloads over records, with and without loss', async () => {
    const records = 600
    for (const isLossless of [true, false]) {
      const ring = formatted(2 ** 21)
      // Both readers take a lease, which shows that they started; only one writer respects it.
      const reading = startEnd<Read>({ role: 'readLong', ring, lease: 0 })
      await leaseTaken(ring, 0)
      await startEnd({ role: 'writeLong', ring, records, isLossless }).answer
      const { read, wrong, lost } = await reading.answer
      expect(wrong).toBe(0)
      expect(read + lost).toBe(records)
      if (isLossless) expect(lost).toBe(0)
    }
  })
})

/** How many records the writer has published so far. */
function countOf(progress: RingReader): number {
  progress.poll()
  while (progress.next());
  progress.commit()
  return progress.checkpoint.count
}
