// Digests of the frames that a build makes of a recording, and how two builds differ in them.
// Frames are compared as a stream's whole: one that is missing does not make all later ones wrong.
// A stream that both builds open is compared, also where one of them sent nothing; one that only
// one of them knows is not, and is named.
import { hash } from 'node:crypto'
import {
  encodeRecording,
  type RecordHeader,
  type RecordingRecord,
  recordingKind,
} from '../../base/recording-file.ts'
import type { RecordParts } from '../../base/records.ts'

const digestBytes = 8
/** Frames of one record: 8 MiB. */
const recordFramesMax = 1_048_576
/** Differences of frames, and of answers, that are listed; all are counted. */
export const listedMax = 100

export interface StreamFrames {
  /** A digest of each frame, in order. */
  readonly digests: string[]
  /** The newest slot at each frame; empty where they come from a file. */
  readonly slots: (number | null)[]
}

/** Frames by stream. */
export class FrameResults {
  readonly streams = new Map<string, StreamFrames>()
  /** The release that made them. */
  readonly release: string

  constructor(release: string) {
    this.release = release
  }

  /** The build makes this stream, though it may have no frame. */
  open(stream: string): StreamFrames {
    const known = this.streams.get(stream)
    if (known !== undefined) return known
    const made = { digests: [], slots: [] }
    this.streams.set(stream, made)
    return made
  }

  add(stream: string, frame: Uint8Array, slot: number | null): void {
    const { digests, slots } = this.open(stream)
    digests.push(hash('sha256', frame, 'buffer').toString('latin1', 0, digestBytes))
    slots.push(slot)
  }

  get frames(): number {
    let frames = 0
    for (const { digests } of this.streams.values()) frames += digests.length
    return frames
  }

  /** Records of at most `most` frames of a stream; the last record completes them. */
  *encode(most = recordFramesMax): Generator<RecordParts> {
    for (const [stream, { digests }] of this.streams)
      for (let from = 0; from === 0 || from < digests.length; from += most) {
        const some = digests.slice(from, from + most)
        yield encodeRecording(recordingKind.results, { stream, frames: some.length }, [
          Buffer.from(some.join(''), 'latin1'),
        ])
      }
    const { release, streams, frames } = this
    yield encodeRecording(recordingKind.results, { release, streams: streams.size, frames })
  }

  /** Null when they are not complete. */
  static decode(records: readonly RecordingRecord[]): FrameResults | null {
    const last = records.at(-1)?.header
    if (last === undefined || typeof last.release !== 'string') return null
    const results = new FrameResults(last.release)
    for (const { header, body } of records.slice(0, -1)) {
      const { digests } = results.open(String(header.stream))
      for (let at = 0; at < body.length; at += digestBytes)
        digests.push(body.toString('latin1', at, at + digestBytes))
    }
    const { streams, frames = results.frames } = last
    return results.streams.size === streams && results.frames === frames ? results : null
  }
}

export interface FrameDifference {
  readonly stream: string
  /** `missing`: the recording build made it; `unexpected`: only this one does. */
  readonly kind: 'missing' | 'unexpected' | 'order'
  /** Its number in the stream, from 0. */
  readonly frame: number
  /** The newest slot then; null where it is not known. */
  readonly slot: number | null
}

export interface FrameComparison {
  readonly compared: number
  readonly identical: number
  readonly differing: number
  readonly differences: readonly FrameDifference[]
  readonly notCompared: readonly LoneStream[]
}

/** A stream that only one of two builds makes. */
export interface LoneStream {
  readonly stream: string
  readonly frames: number
  /** The release that makes it. */
  readonly release: string
}

export interface AnswerDifference {
  /** The call's number in the recording, from 0. */
  readonly call: number
  readonly set: string
  readonly method: string
  readonly expected: string
  readonly actual: string
}

export interface AnswersCompared {
  readonly calls: number
  readonly compared: number
  readonly differing: number
  readonly differences: readonly AnswerDifference[]
  /** By reason. */
  readonly notCompared: Readonly<Record<string, number>>
}

export interface Replayed {
  readonly meta: RecordHeader
  /** Null when the recording was cut: its server was killed. */
  readonly end: RecordHeader | null
  /** Bytes after the last whole record. */
  readonly tornBytes: number
  /** Where results begin, or would. */
  readonly at: number
  /** By this build. */
  readonly results: FrameResults
  /** Null when the recording is not sealed: then no frame was compared. */
  readonly frames: FrameComparison | null
  readonly sealedBy: string | null
  readonly answers: AnswersCompared
  readonly shreds: Readonly<Record<string, number>> | null
}

export function compareFrames(expected: FrameResults, actual: FrameResults): FrameComparison {
  let [compared, identical, differing] = [0, 0, 0]
  const differences: FrameDifference[] = []
  for (const [stream, before] of expected.streams) {
    const after = actual.streams.get(stream)
    if (after === undefined) continue
    const found = differencesOf(stream, before, after)
    const unexpected = found.filter(({ kind }) => kind === 'unexpected').length
    compared += Math.max(before.digests.length, after.digests.length)
    identical += after.digests.length - unexpected
    differing += found.length
    differences.push(...found.slice(0, listedMax - differences.length))
  }
  const notCompared = [...loneIn(expected, actual), ...loneIn(actual, expected)]
  return { compared, identical, differing, differences, notCompared }
}

function loneIn({ streams, release }: FrameResults, other: FrameResults): LoneStream[] {
  return [...streams]
    .filter(([stream]) => !other.streams.has(stream))
    .map(([stream, { digests }]) => ({ stream, frames: digests.length, release }))
}

function differencesOf(
  stream: string,
  before: StreamFrames,
  after: StreamFrames,
): FrameDifference[] {
  const at = (kind: FrameDifference['kind'], frame: number): FrameDifference => ({
    ...{ stream, kind, frame },
    slot: (kind === 'missing' ? undefined : after.slots[frame]) ?? null,
  })
  const missing = without(before.digests, after.digests).map((frame) => at('missing', frame))
  const others = without(after.digests, before.digests).map((frame) => at('unexpected', frame))
  if (missing.length + others.length > 0) return [...missing, ...others]
  const moved = before.digests.findIndex((digest, frame) => digest !== after.digests[frame])
  return moved < 0 ? [] : [at('order', moved)]
}

/** Numbers of those that the other list does not have, or not as often. */
function without(digests: readonly string[], others: readonly string[]): number[] {
  const left = new Map<string, number>()
  for (const digest of others) left.set(digest, (left.get(digest) ?? 0) + 1)
  const numbers: number[] = []
  for (const [number, digest] of digests.entries()) {
    const count = left.get(digest) ?? 0
    if (count === 0) numbers.push(number)
    else left.set(digest, count - 1)
  }
  return numbers
}
