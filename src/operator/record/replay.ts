// Replays a flight recording through this build, and compares: frames with those of the build that
// sealed the recording, answers with those that customers got.
//
//   geyser, calls ─► set-replay.ts, one per set ┐
//   shreds        ─► shredstream's admission    ├─► digest of each frame ─► compared, or sealed
//   events        ─► analysis ─► 8443 frames    ┘
//
// Only what was compared is counted as compared; the rest is counted with its reason.
import { closeSync, fsyncSync, ftruncateSync, openSync } from 'node:fs'
import type { Clock } from '../../base/clock.ts'
import { Fault, messageOf } from '../../base/errors.ts'
import {
  entriesIn,
  type RecordHeader,
  RecordingReader,
  type RecordingRecord,
  recordingKind,
} from '../../base/recording-file.ts'
import { writeRecord } from '../../base/records.ts'
import { silentLog } from '../../base/telemetry/log.ts'
import { Meters } from '../../base/telemetry/meters.ts'
import { ShredReplay, type ShredRules } from '../../products/shredstream/replay.ts'
import { startExecution } from '../../streams/flows/execution.ts'
import { EventLog } from '../../streams/log/log.ts'
import type { SetVersions } from './recorder.ts'
import {
  type AnswerDifference,
  type AnswersCompared,
  compareFrames,
  FrameResults,
  listedMax,
  type Replayed,
} from './results.ts'
import { SetReplay } from './set-replay.ts'

/** Throws a `Fault` for a file that cannot be replayed. */
export async function replayRecording(path: string, release: string): Promise<Replayed> {
  const reader = new RecordingReader(path)
  const run = new RecordingReplay(release)
  let at = reader.at
  try {
    for (const record of reader.records()) {
      await run.take(record)
      if (record.kind !== recordingKind.results) at = reader.at
    }
    // A turn sends the frames of a few streams, on a slow machine of one.
    for (let streams = run.results.streams.size; streams > 0; streams--)
      await new Promise((resolve) => setImmediate(resolve))
  } finally {
    reader.close()
    run.stop()
  }
  if (run.meta === null) throw new Fault('recording-refused', `${path} has no whole record`)
  if (run.hasEvents) await replayEvents(path, run.results, run.clock)
  const sealed = FrameResults.decode(run.sealed)
  return {
    ...{ meta: run.meta, end: run.end, tornBytes: reader.torn, at },
    results: run.results,
    frames: sealed && compareFrames(sealed, run.results),
    sealedBy: sealed?.release ?? null,
    answers: run.answers(),
    shreds: run.shreds?.counts() ?? null,
  }
}

/** Appends the results of this build, in place of what follows the last whole record. Throws a
 *  `Fault` where the disk does not take them. */
export function sealRecording(path: string, { at, results }: Replayed): void {
  let file: number | null = null
  try {
    file = openSync(path, 'a')
    ftruncateSync(file, at)
    for (const record of results.encode()) writeRecord(file, record)
    fsyncSync(file)
  } catch (cause) {
    if (file !== null) ftruncateSync(file, at)
    throw new Fault('not-sealed', `cannot seal ${path}: ${messageOf(cause)}`, { cause })
  } finally {
    if (file !== null) closeSync(file)
  }
}

class RecordingReplay {
  readonly results: FrameResults
  readonly clock = new RecordedClock()
  readonly sealed: RecordingRecord[] = []
  readonly #sets = new Map<string, SetReplay>()
  readonly #notCompared: Record<string, number> = {}
  readonly #differences: AnswerDifference[] = []
  #counts = { calls: 0, compared: 0, differing: 0 }
  meta: RecordHeader | null = null
  end: RecordHeader | null = null
  shreds: ShredReplay | null = null
  hasEvents = false

  constructor(release: string) {
    this.results = new FrameResults(release)
  }

  async take(record: RecordingRecord): Promise<void> {
    const { kind, header, body } = record
    if (typeof header.atMs === 'number') this.clock.set(header.atMs)
    switch (kind) {
      case recordingKind.meta:
        this.#begin(header)
        break
      case recordingKind.geyser:
        this.#setOf(String(header.set)).take(header, body)
        // Frames of a turn of the event loop are sent at its end.
        await new Promise((resolve) => setImmediate(resolve))
        break
      case recordingKind.call:
        this.#call(header, body)
        break
      case recordingKind.shreds:
        for (const { tag, payload } of entriesIn(body)) this.shreds?.take(tag, payload as Buffer)
        break
      case recordingKind.events:
        this.hasEvents = true
        this.results.open('metrics')
        break
      case recordingKind.end:
        this.end = header
        break
      case recordingKind.results:
        this.sealed.push(record)
    }
  }

  answers(): AnswersCompared {
    const notCompared = this.#notCompared
    return { ...this.#counts, differences: this.#differences, notCompared }
  }

  stop(): void {
    for (const set of this.#sets.values()) set.stop()
  }

  #begin(meta: RecordHeader): void {
    this.meta = meta
    this.clock.set(Number(meta.startedMs))
    // Reason for the cast: the recorder wrote what shredstream reported.
    const rules = meta.shreds as ShredRules | null
    if (rules === null || rules === undefined) return
    this.results.open('shreds')
    this.shreds = new ShredReplay(rules, (shred) => this.results.add('shreds', shred, null))
  }

  #setOf(name: string): SetReplay {
    const known = this.#sets.get(name)
    if (known !== undefined) return known
    const made = new SetReplay(name, this.clock, this.results)
    this.#sets.set(name, made)
    return made
  }

  #call(header: RecordHeader, body: Buffer): void {
    const call = this.#counts.calls++
    const reason = this.#compare(header, body, call)
    if (reason !== null) this.#notCompared[reason] = (this.#notCompared[reason] ?? 0) + 1
  }

  /** Why the answer was not compared; null when it was. */
  #compare(header: RecordHeader, body: Buffer, call: number): string | null {
    if ('requestDigest' in header) return 'recorded as digests'
    if (header.isLong === true) return 'too long to be recorded'
    const requestBytes = Number(header.requestBytes)
    const request = body.subarray(0, requestBytes)
    const set = String(header.set)
    if (header.product === 'grpc' && String(header.method).endsWith('/Subscribe')) {
      this.#setOf(set).streamMessage(Number(header.connection), request)
      return 'gRPC requests: replayed, their frames are compared'
    }
    if (header.product === 'websocket')
      return this.#setOf(set).socketMessage(Number(header.connection), request)
        ? 'subscriptions: replayed, their notifications are compared'
        : 'WebSocket calls that need a node'
    if (header.product !== 'rpc') return `calls of ${String(header.product)}`
    if (header.isFromStream !== true) return 'answered by a node'
    if (header.answerBytes === null) return 'too long to be recorded'
    const expected = body.subarray(requestBytes)
    const actual = this.#setOf(set).answer(request, header.versions as SetVersions)
    if (actual === null) return 'of state from before the recording'
    this.#counts.compared++
    if (actual.equals(expected)) return null
    this.#counts.differing++
    const texts = { expected: String(expected).trim(), actual: String(actual).trim() }
    if (this.#differences.length < listedMax)
      this.#differences.push({ call, set, method: methodOf(request), ...texts })
    return null
  }
}

/** Stands still between two records. */
class RecordedClock implements Clock {
  #startedMs: number | null = null
  #nowMs = 0

  set(nowMs: number): void {
    this.#startedMs ??= nowMs
    this.#nowMs = Math.max(this.#nowMs, nowMs)
  }

  nowMs(): number {
    return this.#nowMs
  }

  monotonicMs(): number {
    return this.#nowMs - (this.#startedMs ?? 0)
  }
}

/** Through the threads of the analysis, which read the file themselves. */
async function replayEvents(path: string, results: FrameResults, clock: Clock): Promise<void> {
  let next = 0
  const events = new EventLog({
    clock,
    reserve: (count) => {
      next += count
      return next - count
    },
  })
  events.listen(({ json }) => results.add('metrics', json, null))
  await new Promise<void>((resolve, reject) => {
    const started = startExecution(
      { source: 'snapshot', path, loop: false },
      {
        ...{ events, clock, log: silentLog, meters: new Meters(), workers: 1 },
        onEnd: () => void started.then((pipeline) => pipeline.stop()).then(resolve),
        onDown: reject,
      },
    )
    started.catch(reject)
  })
}

function methodOf(request: Buffer): string {
  const parsed: unknown = JSON.parse(String(request))
  if (Array.isArray(parsed)) return `${parsed.length} calls`
  return String((parsed as { method?: unknown }).method)
}
