import { describe, expect, test } from 'vitest'
import { Fault } from '../../../src/base/errors.ts'
import { type Delivery, type Indexed, packAccounts } from '../../../src/indexer/engine.ts'
import { IndexWriter, type SinkConfig } from '../../../src/indexer/writer.ts'
import { MemorySink, retryable } from '../../testkit/memory-sink.ts'
import { SyntheticSolana } from '../../testkit/synthetic-solana.ts'
import { until } from '../../testkit/until.ts'

const config: SinkConfig = {
  engine: 'clickhouse',
  clickhouse: { insertMs: 0, insertRows: 20_000 },
  folder: '',
  url: '',
  retentionDays: 1,
  retentionBytes: 1,
  holder: 'test',
}

function delivery(seqs: readonly number[]): Delivery {
  const parcels = seqs.map((seq) => {
    const content = { seq, kind: 'TPS' as const, payload: Buffer.from('400'), facts: null }
    return { feed: 'events' as const, content, bytes: 1, sinceMs: 0, mark: seq }
  })
  return { parcels, marks: { events: seqs.at(-1)! } }
}

/** Blocks of these slots; those of a stream that repeats ask for a cut where they are others. */
function blocks(slots: readonly number[], chain: string, indexed: Indexed | null = null): Delivery {
  const parcels = slots.map((slot) => {
    const blockhash = `${chain}${slot}`
    const block = { parentSlot: slot - 1, blockhash, height: slot, txCount: 0 }
    const accounts = new Uint8Array(0)
    const content = { slot, blockTime: 1, block, transactions: [], accounts }
    const cut = indexed === null ? null : { from: slot, blockhash, indexed }
    return { feed: 'slots' as const, content, cut, bytes: 1, sinceMs: 0, mark: slot }
  })
  return { parcels, marks: { slots: slots.at(-1)! } }
}

async function stage(insertMs = 0) {
  const sink = new MemorySink()
  const wrote: Record<string, number>[] = []
  const failures: string[] = []
  const writer = new IndexWriter(async () => sink, {
    wrote: ({ rows }) => wrote.push(rows),
    failed: (message) => failures.push(message),
    parts() {},
  })
  await writer.open({ ...config, clickhouse: { ...config.clickhouse, insertMs } })
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
    const { sink, writer } = await stage(1_000)
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

  test('writes at once when the bytes of its deliveries are many, or when it is flushed', async () => {
    const { sink, writer } = await stage(60_000)
    const { parcels, marks } = delivery([1])
    const large = parcels.map((parcel) => ({ ...parcel, bytes: 4 * 1024 * 1024 }))
    expect(await writer.take({ parcels: large, marks })).toEqual({ isWritten: true })
    const taken = writer.take(delivery([2]))
    await new Promise((resolve) => setImmediate(resolve))
    expect(seqs(sink)).toEqual([1])
    await writer.flush()
    expect(await taken).toEqual({ isWritten: true })
    expect(seqs(sink)).toEqual([1, 2])
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

  test('writes the deliveries of a rejected write alone, so that a bad one takes no other', async () => {
    const { sink, writer } = await stage(20)
    // The shared write, then that of the second delivery alone.
    sink.isBad = (batches) => batches.some(({ columns }) => columns[0]!.includes(2))
    const taken = await Promise.all([1, 2, 3].map((seq) => writer.take(delivery([seq]))))
    expect(taken).toEqual([{ isWritten: true }, { rejected: 'a bad row' }, { isWritten: true }])
    expect(seqs(sink)).toEqual([1, 3])
    expect(await sink.marks()).toEqual({ events: 3 })
  })

  test('cuts where the chain restarted before it writes, and delays deliveries meanwhile', async () => {
    const { sink, writer } = await stage()
    await writer.take(blocks([7, 8, 9, 10, 11], 'old'))
    const indexed = { to: 11 }
    // The restarted chain has slot 8 as before, and another block from slot 9 on.
    const same = writer.take(blocks([8], 'old', indexed))
    const anew = [[9], [10]].map((slots) => writer.take(blocks(slots, 'new', indexed)))
    for (const taken of [same, ...anew]) expect(await taken).toEqual({ isWritten: true })
    const hashes = sink.rows('blocks').map(({ blockhash }) => blockhash)
    expect(hashes).toEqual(['old7', 'old8', 'new9', 'new10'])
    expect(await sink.marks()).toMatchObject({ slots: 10 })
  })

  test('cuts at every restart of the chain, also rows that are not written yet', async () => {
    const { sink, writer } = await stage(20)
    // A stream whose chain is below those before it still has their last slot as its bound.
    const [first, second] = [{ to: 4 }, { to: 4 }]
    const taken = [
      writer.take(blocks([1, 2, 3, 4], 'a')),
      writer.take(blocks([1], 'b', first)),
      writer.take(blocks([2, 3], 'b', first)),
      writer.take(blocks([1], 'c', second)),
      writer.take(blocks([2], 'c', second)),
    ]
    for (const one of taken) expect(await one).toEqual({ isWritten: true })
    expect(sink.rows('blocks').map(({ blockhash }) => blockhash)).toEqual(['c1', 'c2'])
    expect(await sink.marks()).toMatchObject({ slots: 2 })
  })

  test('deletes nothing when replayed slots have the same blocks', async () => {
    const { sink, writer } = await stage()
    await writer.take(blocks([8, 9, 10], 'old'))
    expect(await writer.take(blocks([9, 10, 11], 'old', { to: 10 }))).toEqual({ isWritten: true })
    expect(sink.rows('blocks').map(({ slot }) => slot)).toEqual([8, 9, 10, 11])
  })

  test('writes pending rows when it stops', async () => {
    const { sink, writer } = await stage(60_000)
    const taken = writer.take(delivery([1]))
    await new Promise((resolve) => setImmediate(resolve))
    await writer.stop()
    expect(await taken).toEqual({ isWritten: true })
    expect(sink.isStopped).toBe(true)
  })

  test('writes nothing of a slot again that the index has, and keeps its mark', async () => {
    const { sink, writer } = await stage()
    await writer.take(blocks([1, 2, 3], 'a'))
    // Another gateway takes over: its stream begins before the mark.
    const next = new IndexWriter(async () => sink, { wrote() {}, failed() {}, parts() {} })
    await next.open(config)
    const indexed = { to: 3 }
    await next.take(blocks([1, 2], 'a', indexed))
    await next.take(delivery([1]))
    expect(sink.repeated).toBe(0)
    expect((await sink.marks()).slots).toBe(3)
    await next.take(blocks([3], 'a', indexed))
    await next.take(blocks([4], 'a'))
    expect(sink.repeated).toBe(0)
    expect(sink.rows('blocks').map(({ slot }) => Number(slot))).toEqual([1, 2, 3, 4])
    expect((await sink.marks()).slots).toBe(4)
    expect(sink.comparisons).toBe(1)
  })

  test('keeps its mark while slots come again, and asks once for many of them', async () => {
    const { sink, writer } = await stage()
    const slots = Array.from({ length: 300 }, (_, at) => at + 1)
    await writer.take(blocks(slots, 'a'))
    const indexed = { to: 300 }
    for (const slot of slots) {
      await writer.take(blocks([slot], 'a', indexed))
      expect(writer.marks).toEqual({ slots: 300 })
    }
    expect([sink.comparisons, sink.repeated]).toEqual([2, 0])
    // A chain that restarted takes it back.
    await writer.take(blocks([250], 'b', { to: 300 }))
    expect(writer.marks).toEqual({ slots: 250 })
    await writer.take(delivery([1]))
    expect(await sink.marks()).toEqual({ slots: 250, events: 1 })
  })

  test('writes late content of a block that it has', async () => {
    const { sink, writer } = await stage()
    await writer.take(blocks([1, 2], 'a'))
    const again = blocks([2], 'a', { to: 2 })
    const [block] = again.parcels
    if (block?.feed !== 'slots') throw new Error('a slot')
    const keys = { pubkey: new Uint8Array(32), owner: new Uint8Array(32) }
    const fact = { ...keys, lamports: 1n, writeVersion: 1n, dataBytes: 0, index: 0 }
    const accounts = packAccounts([fact])
    const late = { ...block, cut: null, content: { ...block.content, block: null, accounts } }
    await writer.take({ parcels: [block, late], marks: { slots: 2 } })
    expect(sink.rows('account_updates')).toHaveLength(1)
    expect(sink.repeated).toBe(0)
  })

  test('writes a slot again that lacks transactions, which came late, and none that is whole', async () => {
    const { sink, writer } = await stage()
    const [first, second] = new SyntheticSolana({ transactionsPerSlot: 2 })
      .next()
      .flatMap((update) => (update.kind === 'transaction' ? [update.info] : []))
    const account = { pubkey: new Uint8Array(32), owner: new Uint8Array(32), lamports: 1n }
    const slotOf = (slot: number, node: number, infos: Uint8Array[], indexed: Indexed | null) => {
      const { parcels, marks } = blocks([slot], 'a', indexed)
      const facts = [
        { ...account, writeVersion: BigInt(node * 100 + slot), dataBytes: 0, index: 0 },
      ]
      const accounts = packAccounts(facts)
      const [parcel] = parcels
      if (parcel?.feed !== 'slots') throw new Error('a slot')
      const block = { ...parcel.content.block!, txCount: 2 }
      const content = { ...parcel.content, block, accounts, transactions: infos }
      return { parcels: [{ ...parcel, content }], marks }
    }
    await writer.take(slotOf(1, 1, [first!, second!], null))
    await writer.take(slotOf(2, 1, [first!], null))
    await writer.take(slotOf(3, 1, [first!, second!], null))
    // Another gateway has all of slot 2 before its block, from another node.
    const indexed = { to: 3 }
    for (const slot of [1, 2, 3]) await writer.take(slotOf(slot, 2, [first!, second!], indexed))
    const found = (table: 'transactions' | 'account_updates', column: string) =>
      sink.rows(table).map((row) => [row.slot, Number(row[column])])
    expect(found('transactions', 'idx')).toEqual(
      [1, 2, 3].flatMap((slot) => [
        [slot, 0],
        [slot, 1],
      ]),
    )
    expect(found('account_updates', 'write_version')).toEqual([
      [1, 101],
      [2, 202],
      [3, 203],
    ])
    expect(sink.repeated).toBe(0)
    expect(await sink.marks()).toMatchObject({ slots: 3 })
  })

  test('writes no slot that it could not compare', async () => {
    const { sink, writer } = await stage()
    await writer.take(blocks([1, 2], 'a'))
    sink.blockhashes = () => Promise.reject(new Fault('sink', 'unreadable'))
    const taken = await writer.take(blocks([2], 'b', { to: 2 }))
    expect(taken).toEqual({ rejected: 'unreadable' })
    expect(sink.rows('blocks').map(({ blockhash }) => blockhash)).toEqual(['a1', 'a2'])
  })
})
