// What two builds make of one recording, compared frame by frame.
import { expect, it } from 'vitest'
import { compareFrames, FrameResults } from '../../../../src/operator/record/results.ts'

function resultsOf(
  streams: Readonly<Record<string, readonly string[]>>,
  release = '1.0.0',
): FrameResults {
  const results = new FrameResults(release)
  for (const [stream, frames] of Object.entries(streams)) {
    results.open(stream)
    for (const [slot, frame] of frames.entries()) results.add(stream, Buffer.from(frame), slot)
  }
  return results
}

const recorded = resultsOf({ grpc: ['a', 'b', 'b', 'c'], shreds: ['x'] })

it('finds equal frames identical', () => {
  const same = resultsOf({ grpc: ['a', 'b', 'b', 'c'], shreds: ['x'] })
  expect(compareFrames(recorded, same)).toEqual({
    ...{ compared: 5, identical: 5, differing: 0, differences: [], notCompared: [] },
  })
})

it('lists a changed frame by stream, number and slot', () => {
  const changed = resultsOf({ grpc: ['a', 'b', 'B', 'c'], shreds: ['x'] })
  expect(compareFrames(recorded, changed)).toEqual({
    ...{ compared: 5, identical: 4, differing: 2, notCompared: [] },
    differences: [
      { stream: 'grpc', kind: 'missing', frame: 2, slot: null },
      { stream: 'grpc', kind: 'unexpected', frame: 2, slot: 2 },
    ],
  })
})

it('finds the one frame that is missing, not all that follow it', () => {
  const { differences } = compareFrames(
    recorded,
    resultsOf({ grpc: ['b', 'b', 'c'], shreds: ['x'] }),
  )
  expect(differences).toEqual([{ stream: 'grpc', kind: 'missing', frame: 0, slot: null }])
})

it('finds frames in another order', () => {
  const { differences } = compareFrames(
    recorded,
    resultsOf({ grpc: ['a', 'b', 'c', 'b'], shreds: ['x'] }),
  )
  expect(differences).toEqual([{ stream: 'grpc', kind: 'order', frame: 2, slot: 2 }])
})

it('does not compare a stream that only one of them makes, and names it', () => {
  const other = resultsOf({ grpc: ['a', 'b', 'b', 'c'], new: ['y', 'z'] }, '0.9.0')
  expect(compareFrames(recorded, other)).toEqual({
    ...{ compared: 4, identical: 4, differing: 0, differences: [] },
    notCompared: [
      { stream: 'shreds', frames: 1, release: '1.0.0' },
      { stream: 'new', frames: 2, release: '0.9.0' },
    ],
  })
})

it('finds every frame of a stream that both make and one of them left empty', () => {
  const empty = resultsOf({ grpc: ['a', 'b', 'b', 'c'], shreds: [] })
  const lost = { stream: 'shreds', frame: 0 }
  expect(compareFrames(recorded, empty)).toMatchObject({
    ...{ differing: 1, differences: [{ ...lost, kind: 'missing' }], notCompared: [] },
  })
  const stored = FrameResults.decode(recordsOf(empty))!
  expect(compareFrames(stored, recorded)).toMatchObject({
    ...{ differing: 1, differences: [{ ...lost, kind: 'unexpected' }], notCompared: [] },
  })
})

it('counts differences that it does not list', () => {
  const many = Array.from({ length: 300 }, (_, index) => `frame ${index}`)
  const { differing, differences } = compareFrames(
    resultsOf({ grpc: [] }),
    resultsOf({ grpc: many }),
  )
  expect([differing, differences.length]).toEqual([300, 100])
})

it('is read from its records, unless one of them is missing', () => {
  const records = recordsOf(recorded)
  const decoded = FrameResults.decode(records)!
  expect(compareFrames(decoded, recorded).differing).toBe(0)
  expect(decoded.frames).toBe(5)
  expect(FrameResults.decode(records.slice(0, -1))).toBeNull()
  expect(FrameResults.decode(records.slice(1))).toBeNull()
  expect(FrameResults.decode([])).toBeNull()
})

it('is read from several records of a stream', () => {
  const records = recordsOf(recorded, 1)
  expect(records.length).toBeGreaterThan(recorded.streams.size + 1)
  expect(compareFrames(FrameResults.decode(records)!, recorded).differing).toBe(0)
  for (const at of records.keys())
    expect(FrameResults.decode(records.filter((_, other) => other !== at))).toBeNull()
})

function recordsOf(results: FrameResults, most?: number) {
  return [...results.encode(most)].map((parts) => recordOf(Buffer.concat(parts)))
}

/** As a reader of the file has it. */
function recordOf(record: Buffer) {
  const payload = record.subarray(12)
  const end = 4 + payload.readUInt32LE(0)
  const header = JSON.parse(payload.toString('utf8', 4, end)) as Record<string, unknown>
  return { kind: record[8]!, header, body: payload.subarray(end) }
}
