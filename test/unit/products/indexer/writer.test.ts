import { describe, expect, test } from 'vitest'
import { Fault } from '../../../../src/base/errors.ts'
import type { Delivery } from '../../../../src/products/indexer/parcels.ts'
import { IndexWriter, type SinkConfig } from '../../../../src/products/indexer/writer.ts'
import { MemorySink, retryable } from '../../../support/memory-sink.ts'
import { until } from '../../../support/until.ts'

const place: SinkConfig = {
  engine: 'duckdb',
  folder: '',
  url: '',
  retentionDays: 1,
  retentionBytes: 1,
  holder: 'test',
}

function delivery(seqs: readonly number[], more: Partial<Delivery> = {}): Delivery {
  const events = seqs.map((seq) => ({
    seq,
    kind: 'TPS' as const,
    payload: Buffer.from('400'),
    facts: null,
  }))
  return {
    slots: [],
    events,
    tips: [],
    usage: [],
    marks: { events: seqs.at(-1)! },
    cut: null,
    ...more,
  }
}

function block(slot: number): Delivery['slots'][number] {
  const facts = { parentSlot: slot - 1, blockhash: `h${slot}`, height: slot, txCount: 0 }
  const accounts = new Uint8Array(0)
  return { slot, blockTime: 1, block: facts, transactions: [], accounts }
}

async function stage(lingerMs = 0) {
  const sink = new MemorySink()
  sink.lingerMs = lingerMs
  const wrote: Record<string, number>[] = []
  const failures: string[] = []
  const writer = new IndexWriter(async () => sink, {
    wrote: ({ rows }) => wrote.push(rows),
    failed: (message) => failures.push(message),
  })
  await writer.open(place)
  return { sink, writer, wrote, failures }
}

const seqs = (sink: MemorySink) => sink.rows('tps').map(({ seq }) => seq)

describe('the index writer', () => {
  test('answers when rows and marks are durable, not before', async () => {
    const { sink, writer, wrote } = await stage()
    let open = () => {}
    sink.gate = new Promise((resolve) => {
      open = resolve
    })
    let isAnswered = false
    const taken = writer.take(delivery([1, 2])).finally(() => {
      isAnswered = true
    })
    await new Promise((resolve) => setImmediate(resolve))
    expect(isAnswered).toBe(false)
    open()
    expect(await taken).toEqual({ isWritten: true })
    expect(seqs(sink)).toEqual([1, 2])
    expect(await sink.marks()).toEqual({ events: 2 })
    expect(wrote).toEqual([{ tps: 2 }])
  })

  test('batches deliveries that arrive while it waits or writes', async () => {
    const { sink, writer } = await stage(30)
    await Promise.all([1, 2, 3].map((seq) => writer.take(delivery([seq]))))
    expect(sink.writes).toBe(1)
    expect(seqs(sink)).toEqual([1, 2, 3])
  })

  test('writes a large batch at once', async () => {
    const { sink, writer } = await stage(60_000)
    const many = Array.from({ length: 20_000 }, (_, index) => index + 1)
    expect(await writer.take(delivery(many))).toEqual({ isWritten: true })
    expect(sink.rows('tps')).toHaveLength(20_000)
  })

  test('retries a failed write, and keeps the order', async () => {
    const { sink, writer, failures } = await stage()
    sink.faults.push(retryable('busy'), retryable('busy'))
    const first = writer.take(delivery([1]))
    await until(() => failures.length > 0, 'the first failure')
    const second = writer.take(delivery([2]))
    expect(await first).toEqual({ isWritten: true })
    expect(await second).toEqual({ isWritten: true })
    expect(seqs(sink)).toEqual([1, 2])
    expect(failures).toEqual(['busy', 'busy'])
  })

  test('reports a delivery that the sink rejects for good', async () => {
    const { sink, writer } = await stage()
    sink.faults.push(new Fault('sink', 'a bad row'))
    expect(await writer.take(delivery([1]))).toEqual({ rejected: 'a bad row' })
    expect(await writer.take(delivery([2]))).toEqual({ isWritten: true })
  })

  test('cuts before it writes, and delays deliveries meanwhile', async () => {
    const { sink, writer } = await stage()
    const old = { slots: [block(8), block(9), block(10)], events: [], marks: { slots: 10 } }
    await writer.take(delivery([1], old))
    const anew = { slots: [block(9)], events: [], marks: { slots: 9 }, cut: { from: 9, to: 10 } }
    const next = { slots: [block(10)], events: [], marks: { slots: 10 } }
    const both = [writer.take(delivery([1], anew)), writer.take(delivery([1], next))]
    expect(await Promise.all(both)).toEqual([{ isWritten: true }, { isWritten: true }])
    expect(sink.rows('blocks').map(({ slot }) => slot)).toEqual([8, 9, 10])
    expect(sink.repeated).toBe(0)
    expect(await sink.marks()).toMatchObject({ slots: 10 })
  })

  test('writes pending rows when it stops', async () => {
    const { sink, writer } = await stage(60_000)
    const taken = writer.take(delivery([1]))
    await new Promise((resolve) => setImmediate(resolve))
    await writer.stop()
    expect(await taken).toEqual({ isWritten: true })
    expect(sink.isStopped).toBe(true)
  })
})
