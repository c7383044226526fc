// Files that may be torn or damaged: segments of the stream log, flight recordings, event rings.
import { deepStrictEqual, ok } from 'node:assert'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Fault } from '../../../src/base/errors.ts'
import {
  encodeRecording,
  entriesIn,
  entryHeadBytes,
  openingOf,
  putEntry,
  RecordingReader,
  recordingKind,
} from '../../../src/base/recording-file.ts'
import { readHead } from '../../../src/base/records.ts'
import {
  BatchChunks,
  decodeBatch,
  decodeEra,
} from '../../../src/streams/segments/segment-format.ts'
import { SegmentReader } from '../../../src/streams/segments/segment-reader.ts'
import { SegmentWriter, segmentFile } from '../../../src/streams/segments/segment-writer.ts'
import { type Chance, same, type Target } from '../target.ts'

const folder = mkdtempSync(join(tmpdir(), 'sluice-fuzz-'))
const bounds = (compress: 'none' | 'zstd') => ({ keepMs: 3_600_000, bytesMax: 1e9, compress })
const headBytes = 12

/** Every record that was ever written here, by its bytes. */
const written = new Set<string>()

function segment(compress: 'none' | 'zstd'): Buffer {
  const at = join(folder, `seed-${compress}`)
  const writer = new SegmentWriter(at, bounds(compress))
  writer.open(0)
  for (let era = 0; era < 3; era++) {
    const chunks = new BatchChunks((laidOut) => writer.batches(laidOut))
    for (const number of [2 * era, 2 * era + 1]) {
      const table = new Float64Array(8).fill(number)
      chunks.add(new Uint8Array(table.buffer), Buffer.alloc(5 + number, number))
    }
    chunks.flush()
    const lists = [[], [{ kind: 'update', update: { slot: era } } as const], []]
    writer.era(
      { slot: era + 1, finalized: { slot: era, blockhash: `h${era}` }, lists },
      1_000 + era,
    )
  }
  writer.stop()
  const bytes = readFileSync(segmentFile(at, 1))
  for (const record of recordsIn(bytes)) written.add(record.toString('hex'))
  return bytes
}

function recordsIn(bytes: Buffer): Buffer[] {
  const found: Buffer[] = []
  for (let at = 0; at < bytes.length; ) {
    const head = readHead(bytes, at)
    const end = head === null ? bytes.length : at + headBytes + head.payloadBytes
    found.push(bytes.subarray(at, end))
    at = end
  }
  return found
}

/** Records go, come twice or change places; their bytes stay. */
function changeRecords(input: Buffer, chance: Chance): Buffer {
  const records = recordsIn(input)
  const [a, b] = [chance.below(records.length), chance.below(records.length)]
  if (records.length === 0) return input
  if (chance.below(3) === 0) records.splice(a, 1)
  else if (chance.below(2) === 0) records.splice(a, 0, records[b]!)
  else [records[a], records[b]] = [records[b]!, records[a]!]
  return Buffer.concat(records)
}

const seedSegments = [segment('none'), segment('zstd')]
const log = join(folder, 'log')

/** The first byte chooses whether another file follows, then the file. */
export const segments: Target = {
  seeds: () =>
    seedSegments.flatMap((one) => [0, 1].map((first) => Buffer.concat([Buffer.of(first), one]))),
  change: (input, chance) =>
    Buffer.concat([input.subarray(0, 1), changeRecords(input.subarray(1), chance)]),
  run(input) {
    writeLog(input)
    const places = new SegmentWriter(log, bounds('none')).open(2_000)
    for (const { segment: number, at, bytes } of places) {
      const file = readFileSync(segmentFile(log, number))
      const record = file.subarray(at, at + bytes)
      ok(written.has(record.toString('hex')), 'an era that was written')
      for (const [start, length] of decodeEra(record)!.batches) {
        const batch = file.subarray(start, start + length)
        const isWritten = written.has(batch.toString('hex'))
        if (decodeBatch(Buffer.from(batch)) !== null) ok(isWritten, 'a batch that was written')
      }
    }
    same(new SegmentWriter(log, bounds('none')).open(2_000), places, 'the same when it opens again')
  },
  async compare(input) {
    writeLog(input)
    const places = new SegmentWriter(log, bounds('none')).open(2_000)
    const reader = new SegmentReader(log)
    for (const place of places) {
      const era = await reader.era(place)
      for (const commitment of [0, 1, 2] as const) era?.list(commitment)
      for (const batch of (era?.batches ?? []).keys())
        await reader.batches(place, batch, (bytes) => Buffer.alloc(bytes))
    }
    reader.forget()
  },
}

function writeLog(input: Buffer): void {
  rmSync(log, { recursive: true, force: true })
  mkdirSync(log)
  writeFileSync(segmentFile(log, 1), input.subarray(1))
  if ((input[0] ?? 0) % 2 === 1) writeFileSync(segmentFile(log, 2), seedSegments[0]!)
}

const recordingPath = join(folder, 'recording')
const opening = openingOf()

const entry = Buffer.alloc(entryHeadBytes + 7)
putEntry(entry, 0, { tag: 3, payload: Buffer.from('payload') })
const { meta, call, shreds, end } = recordingKind
const seedRecords = [
  encodeRecording(meta, { release: '0.0.0', startedAt: 1 }),
  encodeRecording(call, { method: 'getSlot' }, [Buffer.from('{}')]),
  encodeRecording(shreds, { entries: 1 }, [entry]),
  encodeRecording(end, { reason: 'asked' }),
].map((parts) => Buffer.concat(parts))
for (const record of seedRecords) written.add(record.toString('hex'))

/** The records of a flight recording, without its opening. */
export const flightRecording: Target = {
  seeds: () => [Buffer.concat(seedRecords)],
  change: changeRecords,
  run(input) {
    writeFileSync(recordingPath, Buffer.concat([opening, input]))
    const reader = new RecordingReader(recordingPath)
    let at = reader.at
    for (const { kind, body } of reader.records()) {
      const record = input.subarray(at - opening.length, reader.at - opening.length)
      ok(written.has(record.toString('hex')), 'a record that was written')
      if (kind === shreds) deepStrictEqual([...entriesIn(body)].length, 1)
      at = reader.at
    }
    reader.close()
    ok(reader.torn >= 0, 'what is left')
  },
  compare(input) {
    writeFileSync(recordingPath, input)
    try {
      new RecordingReader(recordingPath).close()
    } catch (error) {
      ok(error instanceof Fault, 'a file that is none is refused with a fault')
    }
  },
}
