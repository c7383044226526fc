// Files of a flight recording that are whole, cut anywhere, damaged, or of another kind.
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import {
  encodeRecording,
  entriesIn,
  entryHeadBytes,
  openingBytes,
  openingOf,
  putEntry,
  RecordingReader,
  recordingFormat,
  recordingKind,
} from '../../../src/base/recording-file.ts'

let folder: string
let path: string

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'recording-'))
  path = join(folder, 'a.rec')
})

afterEach(() => {
  rmSync(folder, { recursive: true })
})

const records = [
  encodeRecording(recordingKind.meta, { release: '1.0.0' }),
  encodeRecording(recordingKind.geyser, { op: 'batch' }, [Buffer.from('ta'), Buffer.from('ble')]),
  encodeRecording(recordingKind.end, { reason: 'done' }),
].map((parts) => Buffer.concat(parts))
const file = Buffer.concat([openingOf(), ...records])

function read() {
  const reader = new RecordingReader(path)
  const found = [...reader.records()]
  reader.close()
  return { found, torn: reader.torn, at: reader.at }
}

it('reads the records in order, with header and body', () => {
  writeFileSync(path, file)
  const { found, torn, at } = read()
  expect(found.map(({ kind, header }) => [kind, header])).toEqual([
    [recordingKind.meta, { release: '1.0.0' }],
    [recordingKind.geyser, { op: 'batch' }],
    [recordingKind.end, { reason: 'done' }],
  ])
  expect(String(found[1]!.body)).toBe('table')
  expect([torn, at]).toEqual([0, file.length])
})

it('has every whole record of a file that was cut anywhere, and the bytes of the rest', () => {
  const ends = records.map((_, index) =>
    records.slice(0, index + 1).reduce((sum, { length }) => sum + length, openingBytes),
  )
  for (let length = openingBytes; length <= file.length; length++) {
    writeFileSync(path, file.subarray(0, length))
    const whole = ends.filter((end) => end <= length)
    const { found, torn, at } = read()
    expect(found.length).toBe(whole.length)
    expect(at).toBe(whole.at(-1) ?? openingBytes)
    expect(torn).toBe(length - at)
  }
})

it('ends at a record whose checksum does not hold', () => {
  const damaged = Buffer.from(file)
  damaged[openingBytes + records[0]!.length + 20]! ^= 1
  writeFileSync(path, damaged)
  expect(read().found.map(({ kind }) => kind)).toEqual([recordingKind.meta])
})

it.each([
  ['another file', Buffer.from('{"no":"recording"}'), 'is not a recording of sluice record'],
  ['an empty file', Buffer.alloc(0), 'is not a recording of sluice record'],
  [
    'a later format',
    openingOf(recordingFormat + 1),
    `has format ${recordingFormat + 1}, and this release reads up to format ${recordingFormat}`,
  ],
])('refuses %s in a sentence', (_, bytes, message) => {
  writeFileSync(path, bytes)
  expect(read).toThrow(`${path} ${message}`)
})

it('refuses a folder and a pipe, which it does not wait for', () => {
  path = folder
  expect(read).toThrow(`cannot open ${path}: it is not a file`)
  path = join(folder, 'pipe')
  execFileSync('mkfifo', [path])
  expect(read).toThrow(`cannot open ${path}: it is not a file`)
})

it('refuses a file that is not there', () => {
  expect(read).toThrow(`cannot open ${path}`)
})

it('keeps the entries of a tapped thread with their tags', () => {
  const entries = [
    { tag: -1, payload: Buffer.from('first') },
    { tag: 3, payload: Buffer.alloc(0) },
    { tag: 7, payload: Buffer.alloc(70_000, 9) },
  ]
  const bytes = entries.reduce((sum, { payload }) => sum + entryHeadBytes + payload.length, 0)
  const chunk = Buffer.alloc(bytes)
  expect(entries.reduce((at, entry) => putEntry(chunk, at, entry), 0)).toBe(bytes)
  expect([...entriesIn(chunk)]).toEqual(entries)
})
