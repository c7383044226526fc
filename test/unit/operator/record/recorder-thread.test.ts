// What the recorder's thread writes, and how a recording ends.
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { entriesIn, RecordingReader, recordingKind } from '../../../../src/base/recording-file.ts'
import { createTap, switchTap, TapWriter } from '../../../../src/base/rings/tap.ts'
import {
  type RecorderData,
  type RecorderReport,
  RecorderThread,
} from '../../../../src/operator/record/recorder-thread.ts'
import { TappedSink } from '../../../../src/upstream/execution/open.ts'
import { canMount, mountSmallDisk } from '../../../testkit/small-disk.ts'

const ringBytes = 1024 * 1024
let folder: string

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'recorder-'))
})

afterEach(() => {
  rmSync(folder, { recursive: true, force: true })
})

function open(options: Partial<RecorderData> = {}) {
  const taps = { shreds: createTap(ringBytes), events: createTap(ringBytes) }
  const given = { path: join(folder, 'a.rec'), bytesMax: 1e9, calls: 'digest' as const }
  const data = { ...given, meta: { release: '1.0.0' }, taps, ...options }
  const { path } = data
  const reports: RecorderReport[] = []
  const thread = new RecorderThread(data, (report) => reports.push(report))
  thread.open()
  return { path, taps: data.taps, thread, reports }
}

function recordsIn(path: string) {
  const reader = new RecordingReader(path)
  const found = [...reader.records()]
  reader.close()
  return { found, torn: reader.torn }
}

const batch = (bytes: number) => ({
  kind: recordingKind.geyser,
  header: { op: 'batch' },
  body: [Buffer.alloc(bytes, 1)],
})
const call = {
  kind: recordingKind.call,
  header: { product: 'rpc' },
  body: [Buffer.from('the request'), Buffer.from('the answer')],
}

describe('a recording', () => {
  it('has what main sent and what the tapped threads wrote, and can be read by its owner alone', () => {
    const { path, taps, thread, reports } = open()
    const writer = new TapWriter(taps.shreds)
    writer.write(2, Buffer.from('head '), Buffer.from('body'))
    writer.write(-1, Buffer.alloc(100_000, 7))
    writer.publish()
    thread.take({ kind: 'records', records: [batch(10)], bytes: 10 })
    thread.poll()
    thread.take({ kind: 'finish', reason: 'done', isFailure: false })
    const { found, torn } = recordsIn(path)
    const { meta, geyser, shreds, end } = recordingKind
    expect(found.map(({ kind }) => kind)).toEqual([meta, geyser, shreds, end])
    const entries = [...entriesIn(found[2]!.body)]
    expect(entries.map(({ tag, payload }) => [tag, payload.length])).toEqual([
      [2, 9],
      [-1, 100_000],
    ])
    expect(found[3]!.header).toMatchObject({ reason: 'done', batches: 1, shreds: 2, lostShreds: 0 })
    expect([torn, thread.isOpen, statSync(path).mode & 0o777]).toEqual([0, false, 0o600])
    expect(reports.map(({ kind }) => kind)).toEqual(['opened', 'wrote', 'ended'])
  })

  it('counts what a tapped thread wrote faster than it was read', () => {
    const { path, taps, thread } = open()
    const writer = new TapWriter(taps.events)
    for (let count = 0; count < 40; count++) writer.write(1, Buffer.alloc(60_000, count))
    writer.publish()
    thread.take({ kind: 'finish', reason: 'done', isFailure: false })
    expect(recordsIn(path).found.at(-1)!.header).toMatchObject({ events: 0, lostEvents: 40 })
  })

  it('has no part of a message that was overwritten while it was read', () => {
    const { path, taps, thread } = open()
    const writer = new TapWriter(taps.events)
    const write = (bytes: number, value: number) => writer.write(1, Buffer.alloc(bytes, value))
    // The first of two pieces is copied, then the ring is overwritten.
    const copied = vi.spyOn(Uint8Array, 'from').mockImplementationOnce((part) => {
      const piece = Uint8Array.prototype.slice.call(part)
      for (let count = 0; count < 400; count++) write(4_000, 2)
      writer.publish()
      return piece
    })
    write(100_000, 1)
    writer.publish()
    thread.poll()
    copied.mockRestore()
    write(10, 3)
    writer.publish()
    thread.take({ kind: 'finish', reason: 'done', isFailure: false })
    const { found } = recordsIn(path)
    const events = found.filter(({ kind }) => kind === recordingKind.events)
    expect(events.map(({ body }) => [...entriesIn(body)].map(({ payload }) => payload))).toEqual([
      [Buffer.alloc(10, 3)],
    ])
    expect(found.at(-1)!.header).toMatchObject({ events: 1, lostEvents: 401 })
  })

  it('begins without what the recording before it left unpublished', () => {
    const taps = { shreds: createTap(ringBytes), events: createTap(ringBytes) }
    const sink = { event() {}, gap() {}, flush() {} }
    const tapped = new TappedSink(sink, new TapWriter(taps.events))
    switchTap(taps.events, true)
    tapped.gap(1, 2)
    switchTap(taps.events, false)
    tapped.flush()
    const { path, thread } = open({ taps })
    switchTap(taps.events, true)
    tapped.gap(3, 4)
    tapped.flush()
    thread.take({ kind: 'finish', reason: 'done', isFailure: false })
    expect(recordsIn(path).found.at(-1)!.header).toMatchObject({ events: 1, lostEvents: 0 })
  })

  it('leaves no file and no thread where it cannot begin', () => {
    // Reason for the value: what cannot be written fails as a full disk does.
    const { path, thread, reports } = open({ meta: { number: 1n } })
    expect(reports).toMatchObject([{ kind: 'refused' }])
    expect([thread.isOpen, existsSync(path)]).toEqual([false, false])
  })

  it.each(['digest', 'whole'] as const)('keeps calls as %s', (calls) => {
    const { path, thread } = open({ calls })
    thread.take({ kind: 'records', records: [call], bytes: 21 })
    thread.take({ kind: 'finish', reason: 'done', isFailure: false })
    const { header, body } = recordsIn(path).found[1]!
    expect(header).toMatchObject({ product: 'rpc', requestBytes: 11, answerBytes: 10 })
    expect(String(body)).toBe(calls === 'whole' ? 'the requestthe answer' : '')
    expect(readFileSync(path).includes('the request')).toBe(calls === 'whole')
    expect('requestDigest' in header).toBe(calls === 'digest')
  })

  it('ends whole when its bytes are used up', () => {
    const { path, thread, reports } = open({ bytesMax: 20_000 })
    for (let count = 0; count < 5; count++)
      thread.take({ kind: 'records', records: [batch(5_000)], bytes: 5_000 })
    const { found, torn } = recordsIn(path)
    expect([found.length, torn]).toEqual([1 + 3 + 1, 0])
    expect(found.at(-1)!.header.reason).toBe('its bytes are used up')
    expect(statSync(path).size).toBeLessThanOrEqual(20_000)
    const ended = reports.find(({ kind }) => kind === 'ended')
    expect(ended).toMatchObject({ isFailure: false })
  })

  it('never overwrites a file', () => {
    const { path, thread } = open()
    thread.take({ kind: 'finish', reason: 'done', isFailure: false })
    const before = readFileSync(path)
    const { reports } = open({ path })
    expect(reports).toMatchObject([{ kind: 'refused', code: 'EEXIST' }])
    expect(readFileSync(path)).toEqual(before)
  })

  it.skipIf(!canMount())('ends after its last whole record when the disk is full', () => {
    const disk = mountSmallDisk('256k')
    try {
      const { path, thread, reports } = open({ path: join(disk.path, 'a.rec') })
      for (let count = 0; count < 10; count++)
        thread.take({ kind: 'records', records: [batch(50_000)], bytes: 50_000 })
      thread.take({ kind: 'finish', reason: 'done', isFailure: false })
      const { found, torn } = recordsIn(path)
      expect(torn).toBe(0)
      expect(found.filter(({ kind }) => kind === recordingKind.geyser).length).toBeLessThan(6)
      const ended = reports.filter(({ kind }) => kind === 'ended')
      expect(ended).toMatchObject([{ isFailure: true, reason: expect.stringContaining('ENOSPC') }])
    } finally {
      disk.unmount()
    }
  })
})
