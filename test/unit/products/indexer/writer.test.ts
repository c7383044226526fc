import { describe, expect, test } from 'vitest'
import { Fault } from '../../../../src/base/errors.ts'
import type { Delivery } from '../../../../src/products/indexer/parcels.ts'
import { IndexWriter, type SinkPlace } from '../../../../src/products/indexer/writer.ts'
import { MemorySink, retryable } from '../../../support/memory-sink.ts'
import { until } from '../../../support/until.ts'

const place: SinkPlace = {
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
  const troubles: string[] = []
  const writer = new IndexWriter(async () => sink, {
    wrote: ({ rows }) => wrote.push(rows),
    trouble: (message) => troubles.push(message),
  })
  await writer.open(place)
  return { sink, writer, wrote, troubles }
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

  test('gathers what comes while it waits or writes into one write', async () => {
    const { sink, writer } = await stage(30)
    await Promise.all([1, 2, 3].map((seq) => writer.take(delivery([seq]))))
    expect(sink.writes).toBe(1)
    expect(seqs(sink)).toEqual([1, 2, 3])
  })

  test('writes at once what is much', async () => {
    const { sink, writer } = await stage(60_000)
    const many = Array.from({ length: 20_000 }, (_, index) => index + 1)
    expect(await writer.take(delivery(many))).toEqual({ isWritten: true })
    expect(sink.rows('tps')).toHaveLength(20_000)
  })

  test('tries again what fails for now, and keeps the order', async () => {
    const { sink, writer, troubles } = await stage()
    sink.faults.push(retryable('busy'), retryable('busy'))
    const first = writer.take(delivery([1]))
    await until(() => troubles.length > 0, 'the first failure')
    const second = writer.take(delivery([2]))
    expect(await first).toEqual({ isWritten: true })
    expect(await second).toEqual({ isWritten: true })
    expect(seqs(sink)).toEqual([1, 2])
    expect(troubles).toEqual(['busy', 'busy'])
  })

  test('tells what the sink will never take', async () => {
    const { sink, writer } = await stage()
    sink.faults.push(new Fault('sink', 'a bad row'))
    expect(await writer.take(delivery([1]))).toEqual({ rejected: 'a bad row' })
    expect(await writer.take(delivery([2]))).toEqual({ isWritten: true })
  })

  test('cuts before it writes, and holds what comes meanwhile', async () => {
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

  test('writes what is there when it stops', async () => {
    const { sink, writer } = await stage(60_000)
    const taken = writer.take(delivery([1]))
    await new Promise((resolve) => setImmediate(resolve))
    await writer.stop()
    expect(await taken).toEqual({ isWritten: true })
    expect(sink.isStopped).toBe(true)
  })
})
