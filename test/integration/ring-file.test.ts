import { closeSync, openSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { oldSchemaHash } from '../../src/chain/evm/event-ring.ts'
import { TimerPacer } from '../../src/upstream/execution/playback.ts'
import { RingFile } from '../../src/upstream/execution/ring-file.ts'
import { eventRingHeader } from '../testkit/event-ring-writer.ts'
import { type SeenEvent, SeenEvents } from '../testkit/execution-sink.ts'
import { isAsWritten, RingWriterProcess, stallUntil } from '../testkit/ring-writer.ts'
import { until } from '../testkit/until.ts'

const capacity = 2 ** 16
const payloadBytes = 2 ** 27

let writer: RingWriterProcess
let source: RingFile
let seen: SeenEvents
let running: Promise<void>
/** Events whose bytes are not those that the writer made for their number. */
let wrong: number
let onEvent: (event: SeenEvent) => void

beforeEach(() => {
  writer = new RingWriterProcess()
  source = new RingFile({ path: writer.path }, new TimerPacer())
  seen = new SeenEvents()
  wrong = 0
  onEvent = () => {}
  seen.onEvent = (event) => {
    if (!isAsWritten(event)) wrong += 1
    onEvent(event)
  }
})

afterEach(async () => {
  source.stop()
  await running?.catch(() => {})
  await writer.stop()
})

function start(): void {
  running = source.run(seen)
  // A rejection is looked at by the test that expects one.
  running.catch(() => {})
}

/** Starts on an empty ring and waits until the reader is at its beginning. */
async function startOnEmpty(options: Parameters<RingWriterProcess['create']>[0] = {}) {
  await writer.create(options)
  start()
  await writer.write({ kind: 'mixed', count: 1 })
  // Joining happens at the newest event: the first one may or may not be seen.
  await until(async () => {
    await writer.write({ kind: 'mixed', count: 1 })
    return seen.total > 0
  }, 'the reader to join')
}

const isAt = (seqno: number) => () => seen.lastSeqno === seqno
const lost = () => seen.gaps.reduce((sum, { from, to }) => sum + to - from + 1, 0)

describe('a live event ring file', () => {
  test('is read event by event while another process writes it', async () => {
    await startOnEmpty()
    const from = seen.lastSeqno - seen.total
    const last = await writer.write({ kind: 'mixed', count: 20_000 })
    await until(isAt(last), 'the last event')
    expect(seen.total).toBe(last - from)
    expect({ wrong, gaps: seen.gaps, jumps: seen.jumps }).toEqual({ wrong: 0, gaps: [], jumps: 0 })
    expect(seen.flushes).toBeGreaterThan(0)
  })

  test('is waited for while it does not exist', async () => {
    start()
    await writer.create()
    await until(async () => {
      await writer.write({ kind: 'mixed', count: 10 })
      return seen.total > 0
    }, 'the first event')
    expect(wrong).toBe(0)
  })

  test('reports an overrun as a gap and continues: nothing wrong, no duplicates', async () => {
    await startOnEmpty()
    const fd = openSync(writer.path, 'r')
    const stallAt = seen.lastSeqno + 500
    onEvent = ({ seqno }) => {
      if (seqno === stallAt) stallUntil(fd, stallAt + 2 * capacity)
    }
    const firstSeen = seen.lastSeqno - seen.total
    const last = await writer.write({ kind: 'mixed', count: 2 * capacity + 5000 })
    await until(isAt(last), 'the last event')
    closeSync(fd)
    expect(seen.gaps.length).toBeGreaterThan(0)
    expect(lost()).toBeGreaterThan(capacity / 2)
    expect(seen.total + lost()).toBe(last - firstSeen)
    expect({ wrong, jumps: seen.jumps }).toEqual({ wrong: 0, jumps: 0 })
  })

  test('reports expired payloads as a gap while their descriptors still exist', async () => {
    await startOnEmpty()
    const fd = openSync(writer.path, 'r')
    const stallAt = seen.lastSeqno + 3
    onEvent = ({ seqno }) => {
      if (seqno === stallAt) stallUntil(fd, stallAt + 150)
    }
    const firstSeen = seen.lastSeqno - seen.total
    const last = await writer.write({ kind: 'large', count: 170, bytes: 1024 * 1024 })
    await until(isAt(last), 'the last event')
    closeSync(fd)
    // One jump over all that expired, not a loss per event.
    expect(seen.gaps.length).toBe(1)
    expect(seen.total + lost()).toBe(last - firstSeen)
    expect(wrong).toBe(0)
  })

  test('reads payloads that wrap around the physical end of the buffer', async () => {
    await startOnEmpty({ firstPayloadByte: payloadBytes - 8192 })
    const last = await writer.write({ kind: 'mixed', count: 500 })
    await until(isAt(last), 'the last event')
    expect({ wrong, gaps: seen.gaps, jumps: seen.jumps }).toEqual({ wrong: 0, gaps: [], jumps: 0 })
  })

  test('reports an event that the writer could not record as a gap of one', async () => {
    await startOnEmpty()
    const failed = await writer.write({ kind: 'error', count: 1 })
    const last = await writer.write({ kind: 'mixed', count: 10 })
    await until(isAt(last), 'the last event')
    expect(seen.gaps).toEqual([{ from: failed, to: failed }])
  })

  test('survives its replacement and reads the new ring from its first event', async () => {
    await startOnEmpty()
    await until(isAt(await writer.write({ kind: 'mixed', count: 100 })), 'the old ring')
    const before = seen.total
    await writer.create()
    const last = await writer.write({ kind: 'mixed', count: 70 })
    await until(() => seen.total === before + last, 'the new ring')
    expect(seen.lastSeqno).toBe(last)
    expect({ wrong, gaps: seen.gaps, jumps: seen.jumps }).toEqual({ wrong: 0, gaps: [], jumps: 1 })
  })

  test('survives truncation in the header, the descriptors or the payloads', async () => {
    await startOnEmpty()
    for (const length of [0, 100, 2 ** 21 + 64, 2 ** 21 + 2 ** 22 + 16]) {
      await writer.truncate(length)
      await writer.create()
      const before = seen.total
      const last = await writer.write({ kind: 'mixed', count: 50 })
      await until(() => seen.total === before + last, `the ring after a cut to ${length}`)
    }
    expect(wrong).toBe(0)
  })

  test('survives truncation while it is read', async () => {
    await startOnEmpty()
    let cutAt = seen.lastSeqno + 2000
    onEvent = ({ seqno }) => {
      if (seqno !== cutAt) return
      cutAt = -1
      truncateSync(writer.path, 2 ** 21 + 2 ** 22)
    }
    await writer.write({ kind: 'mixed', count: 30_000 })
    await until(() => cutAt === -1, 'the cut')
    await writer.create()
    const last = await writer.write({ kind: 'mixed', count: 40 })
    await until(isAt(last), 'the ring after the cut')
  })

  test('continues after the file was missing for a while', async () => {
    await startOnEmpty()
    rmSync(writer.path)
    const last = await writer.write({ kind: 'mixed', count: 10 })
    await until(isAt(last), 'what the writer still writes')
    await writer.create()
    await until(isAt(await writer.write({ kind: 'mixed', count: 5 })), 'the file that came back')
    expect(wrong).toBe(0)
  })

  test('a ring of the old schema is rejected with a message that names it', async () => {
    writeFileSync(writer.path, eventRingHeader({ schema: oldSchemaHash }))
    await expect(source.run(seen)).rejects.toThrow(oldSchemaHash)
  })
})
