import { closeSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { blockVerified, EventType } from '../../../../src/chain/evm/event-payload.ts'
import type { RingGeometry } from '../../../../src/chain/evm/event-ring.ts'
import {
  descriptor,
  descriptorOffset,
  parseRingHeader,
  ringHeader,
} from '../../../../src/chain/evm/event-ring.ts'
import { readU64, writeU16, writeU32, writeU64 } from '../../../../src/chain/evm/words.ts'
import { RingFileReader } from '../../../../src/upstream/execution/ring-file.ts'
import { EventRingWriter, eventRingHeader } from '../../../testkit/event-ring-writer.ts'
import { SeenEvents } from '../../../testkit/execution-sink.ts'

/** Runs before the reader's nth positional read, to simulate a concurrent writer. */
const between = vi.hoisted(() => ({ reads: 0, at: -1, act: () => {} }))
vi.mock('node:fs', async (original) => {
  const fs = await original<typeof import('node:fs')>()
  const readSync = (...call: Parameters<typeof fs.readSync>) => {
    if (between.reads++ === between.at) between.act()
    return fs.readSync(...call)
  }
  return { ...fs, readSync }
})

// The reads of one batch: first slot, descriptors, payloads, header, descriptors again.
const readOf = { payloads: 2, header: 3, again: 4 }

const folder = mkdtempSync(join(tmpdir(), 'sluice-reader-'))
const path = join(folder, 'ring')
afterAll(() => rmSync(folder, { recursive: true, force: true }))

let geometry: RingGeometry
let fd: number
let seen: SeenEvents

beforeEach(() => {
  const parsed = parseRingHeader(eventRingHeader())
  if (!parsed.ok) throw new Error(parsed.refusal.message)
  geometry = parsed.value
  const writer = new EventRingWriter(path)
  const head = new Uint8Array(descriptor.bytes)
  const payload = new Uint8Array(blockVerified.size)
  for (let seqno = 1; seqno <= 10; seqno++) {
    writeU16(head, descriptor.type, EventType.BlockVerified)
    writeU32(head, descriptor.payloadSize, payload.length)
    writeU64(payload, blockVerified.blockNumber, seqno)
    writer.event(head, payload)
  }
  writer.close()
  fd = openSync(path, 'r+')
  seen = new SeenEvents({ keep: true })
  between.at = -1
})

/** Reads one batch; `act` happens before the given read of it. */
function readWith(at: number, act: () => void): void {
  between.reads = 0
  between.at = at
  between.act = act
  new RingFileReader(fd, geometry, 0).readBatch(seen)
  between.at = -1
  closeSync(fd)
}

function poke(offset: number, value: number): void {
  const bytes = new Uint8Array(8)
  writeU64(bytes, 0, value)
  writeSync(fd, bytes, 0, 8, offset)
}

const numbers = () => seen.events.map(({ payload }) => readU64(payload, 0))

describe('a batch of a ring that changes while it is read', () => {
  test('is delivered whole when nothing changes', () => {
    readWith(-1, () => {})
    expect(numbers()).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
  })

  test('ends before a slot that is overwritten between the two reads of it', () => {
    for (const moment of [readOf.payloads, readOf.again]) {
      seen = new SeenEvents({ keep: true })
      fd = openSync(path, 'r+')
      readWith(moment, () => {
        poke(geometry.payloadBase + 4 * 16, 65_541)
        poke(descriptorOffset(geometry, 5), 65_541)
        poke(ringHeader.lastSeqno, 65_541)
      })
      expect(numbers()).toEqual([1, 2, 3, 4])
      expect(seen.gaps[0]?.from).toBe(5)
      fd = openSync(path, 'r+')
      poke(geometry.payloadBase + 4 * 16, 5)
      poke(descriptorOffset(geometry, 5), 5)
      poke(ringHeader.lastSeqno, 10)
      closeSync(fd)
    }
  })

  test('ends before a slot that is half written', () => {
    readWith(readOf.payloads, () => {
      poke(descriptorOffset(geometry, 3), 0)
      poke(descriptorOffset(geometry, 3) + descriptor.payloadOffset, 2 ** 40)
      poke(ringHeader.lastSeqno, 65_539)
    })
    expect(numbers()).toEqual([1, 2])
    expect(seen.gaps[0]?.from).toBe(3)
  })

  test('ends before a payload that left the window while it was read', () => {
    readWith(readOf.header, () => poke(ringHeader.windowStart, 6 * 16))
    expect(numbers()).toEqual([])
    expect(seen.gaps[0]?.from).toBe(1)
  })
})
