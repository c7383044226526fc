// Records what comes in to the server, on demand, into one file: the main thread's side.
//
//   geyser sinks, calls ─► pending ─ every 50 ms ─► thread recorder ─► file
//   shred worker, execution source ─ taps (rings) ──┘
//
// Never holds up anything: where the disk cannot keep up, fails or is full, the recording ends with
// one log line. One recording at a time.
import { mkdirSync } from 'node:fs'
import { dirname } from 'node:path'
import { Worker } from 'node:worker_threads'
import type { Clock } from '../../base/clock.ts'
import { messageOf } from '../../base/errors.ts'
import { workerEntry } from '../../base/package-root.ts'
import { type RecordHeader, type RecordingKind, recordingKind } from '../../base/recording-file.ts'
import { createTap, switchTap } from '../../base/rings/tap.ts'
import type { Log } from '../../base/telemetry/log.ts'
import { type CallTap, callBytesMax, type TappedCall } from '../../base/transport/call-tap.ts'
import type { GeyserBatch } from '../../chain/solana/geyser-batch.ts'
import { defaultSet } from '../../upstream/config.ts'
import type { GeyserSink } from '../../upstream/ports.ts'
import type {
  CallsKept,
  OutRecord,
  RecordedCounts,
  RecorderData,
  RecorderReport,
  RecorderRequest,
} from './recorder-thread.ts'

/** Records that the thread has not written; of more, the recording ends. */
export const recorderBytesMax = 256 * 1024 * 1024
/** Estimate for the header and the objects of a record. */
const besideBytes = 1024
/** Each message wakes the thread, and its report this one. More records do not wait so long. */
const flushMs = 50
const flushBytes = 1024 * 1024
const stopMsMax = 2_000

export interface RecordRequest {
  /** Absolute. */
  readonly path: string
  readonly forMs: number
  readonly bytesMax: number
  readonly calls: CallsKept
}

/** The recording that runs, or the last one. */
export interface RecordState {
  readonly path: string
  readonly isOver: boolean
  /** Why it ended. */
  readonly reason: string | null
  readonly isFailure: boolean
  readonly seconds: number
  readonly bytes: number
  readonly counts: RecordedCounts | null
}

/** Of a set's nodes: answers have the shapes of these. */
export interface SetVersions {
  readonly api: string
  readonly node: string
}

export interface RecorderDeps {
  readonly clock: Clock
  readonly log: Log
  readonly version: string
  /** Set by tests only. */
  readonly bytesMax?: number
}

interface Active {
  readonly request: RecordRequest
  readonly worker: Worker
  readonly startedMs: number
  readonly timer: NodeJS.Timeout
  readonly ended: Promise<void>
  isFinishing: boolean
}

export class Recorder implements CallTap {
  readonly taps = { shreds: createTap(), events: createTap() } as const
  readonly #deps: RecorderDeps
  /** Streams that are open, by set: a recording begins with them. */
  readonly #streams = new Map<string, Set<number>>()
  readonly #versions = new Map<string, () => SetVersions>()
  readonly #connections = new WeakMap<object, number>()
  #lastConnection = 0
  #active: Active | null = null
  #opening: { readonly path: string; readonly state: Promise<RecordState | string> } | null = null
  #isStopped = false
  #state: RecordState | null = null
  #pending: OutRecord[] = []
  #pendingBytes = 0
  #waitingBytes = 0
  #isScheduled = false
  #onEnd = () => {}

  constructor(deps: RecorderDeps) {
    this.#deps = deps
  }

  /** Whether calls are recorded. */
  get isOn(): boolean {
    return this.#active !== null && this.#active.request.calls !== 'none'
  }

  get state(): RecordState | null {
    const active = this.#active
    if (active === null || this.#state === null) return this.#state
    return { ...this.#state, seconds: this.#secondsOf(active) }
  }

  /** The sink, with everything that it gets recorded first. */
  sink(set: string, inner: GeyserSink, versions: () => SetVersions): GeyserSink {
    const open = new Set<number>()
    this.#streams.set(set, open)
    this.#versions.set(set, versions)
    return {
      resumeFrom: () => inner.resumeFrom(),
      newestSlot: () => inner.newestSlot(),
      opened: (fromSlot, stream, node) => {
        open.add(stream)
        this.#geyser({ set, op: 'opened', stream, fromSlot })
        inner.opened(fromSlot, stream, node)
      },
      closed: (stream) => {
        open.delete(stream)
        this.#geyser({ set, op: 'closed', stream })
        inner.closed(stream)
      },
      beginAnew: () => {
        this.#geyser({ set, op: 'anew' })
        inner.beginAnew()
      },
      batch: (batch, stream) => {
        if (this.#active !== null) this.#batch(set, batch, stream)
        return inner.batch(batch, stream)
      },
    }
  }

  call({ request, answer, connection, set: given, ...about }: TappedCall): void {
    if (!this.isOn) return
    const set = given ?? defaultSet
    const header = {
      ...{ atMs: this.#deps.clock.nowMs(), ...about, set },
      connection: connection === null ? 0 : this.#numberOf(connection),
      versions: this.#versions.get(set)?.() ?? null,
    }
    const bytes = typeof answer === 'string' ? Buffer.from(answer) : answer
    const body = [request, ...(bytes === null ? [] : [bytes])]
    const isLong = body.some(({ length }) => length > callBytesMax)
    this.#push(recordingKind.call, { ...header, isLong }, isLong ? [empty] : body)
  }

  /** The state of the new recording, or why there is none. */
  async start(request: RecordRequest, meta: RecordHeader): Promise<RecordState | string> {
    const running = this.#active?.request.path
    // Asked again by a command that waited too long for the answer.
    if (running === request.path) return this.#state!
    if (running !== undefined) return `a recording runs already: ${running}`
    if (this.#opening?.path === request.path) return this.#opening.state
    if (this.#opening !== null) return 'a recording is being started already'
    this.#opening = { path: request.path, state: this.#open(request, meta) }
    try {
      return await this.#opening.state
    } finally {
      this.#opening = null
    }
  }

  /** Ends the recording; resolves when its file is whole. */
  async finish(reason: string, isFailure = false): Promise<RecordState | null> {
    const active = this.#active
    if (active === null) return this.#state
    if (!active.isFinishing) {
      this.#stopTaps()
      this.#flush()
      active.isFinishing = true
      post(active.worker, { kind: 'finish', reason, isFailure }, [])
    }
    await active.ended
    return this.#state
  }

  /** No recording starts any more. */
  async stop(): Promise<void> {
    this.#isStopped = true
    const worker = this.#active?.worker
    const finished = this.finish('the server stopped')
    // A thread that waits for its disk ends only after that: the stop goes on without it.
    await new Promise<void>((done) => {
      const deadline = setTimeout(() => {
        void worker?.terminate()
        done()
      }, stopMsMax)
      void finished.then(() => {
        clearTimeout(deadline)
        done()
      })
    })
  }

  async #open(request: RecordRequest, meta: RecordHeader): Promise<RecordState | string> {
    const { clock, log, version } = this.#deps
    const { path, bytesMax, calls, forMs } = request
    try {
      mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
    } catch (error) {
      return `cannot write ${path}: ${messageOf(error)}`
    }
    const about = { release: version, startedMs: clock.nowMs(), calls, forMs, ...meta }
    const data: RecorderData = { path, bytesMax, calls, meta: about, taps: this.taps }
    const worker = new Worker(workerEntry('recorder'), { workerData: data })
    const opened = await firstReport(worker)
    if (this.#isStopped) {
      await worker.terminate()
      return 'the server is stopping'
    }
    if (opened.kind === 'refused') {
      if (opened.code === 'EEXIST') return `${path} exists: a recording never overwrites a file`
      return `cannot write ${path}: ${opened.message}`
    }
    const failed = (reason: string) => this.#ended(worker, { reason, isFailure: true })
    worker.on('message', (report: RecorderReport) => this.#onReport(worker, report))
    worker.on('error', ({ message }) => failed(message))
    worker.on('exit', () => failed('its thread ended'))
    const timer = setTimeout(() => void this.finish('its time is over'), forMs).unref()
    const ended = new Promise<void>((resolve) => {
      this.#onEnd = resolve
    })
    const startedMs = clock.monotonicMs()
    this.#active = { request, worker, startedMs, timer, ended, isFinishing: false }
    this.#waitingBytes = 0
    const none = { reason: null, isFailure: false, seconds: 0, bytes: 0, counts: null }
    this.#state = { path, isOver: false, ...none }
    for (const tap of Object.values(this.taps)) switchTap(tap, true)
    for (const [set, streams] of this.#streams) {
      const nodeVersion = this.#versions.get(set)!().node
      const begun = { set, op: 'opened', fromSlot: null, nodeVersion }
      for (const stream of streams) this.#geyser({ ...begun, stream })
    }
    log.info('recording started', { path, forMs, bytesMax, calls })
    return this.#state
  }

  #geyser(header: RecordHeader): void {
    if (this.#active === null) return
    this.#push(recordingKind.geyser, { atMs: this.#deps.clock.nowMs(), ...header }, [])
  }

  #batch(set: string, { bytes, table, messageBytes }: GeyserBatch, stream: number): void {
    const tableBytes = new Uint8Array(table.buffer, table.byteOffset, table.byteLength)
    const about = { set, op: 'batch', stream, messageBytes, tableBytes: tableBytes.length }
    const header = { atMs: this.#deps.clock.nowMs(), ...about }
    this.#push(recordingKind.geyser, header, [tableBytes, bytes])
  }

  /** Copies the body: its memory belongs to others. */
  #push(kind: RecordingKind, header: RecordHeader, body: readonly Uint8Array[]): void {
    if (this.#active?.isFinishing !== false) return
    const copies = body.map((part) => Uint8Array.from(part))
    this.#pending.push({ kind, header, body: copies })
    this.#pendingBytes += copies.reduce((sum, { length }) => sum + length, besideBytes)
    const { bytesMax = recorderBytesMax } = this.#deps
    if (this.#pendingBytes + this.#waitingBytes > bytesMax) {
      this.#pending = []
      this.#pendingBytes = 0
      void this.finish('the disk is too slow for it', true)
      return
    }
    if (this.#pendingBytes > flushBytes) this.#flush()
    if (this.#isScheduled) return
    this.#isScheduled = true
    setTimeout(() => {
      this.#isScheduled = false
      this.#flush()
    }, flushMs).unref()
  }

  #flush(): void {
    const [records, bytes] = [this.#pending, this.#pendingBytes]
    this.#pending = []
    this.#pendingBytes = 0
    if (records.length === 0 || this.#active?.isFinishing !== false) return
    this.#waitingBytes += bytes
    // Reason for the cast: copies have memory of their own.
    const memory = records.flatMap(({ body }) => body.map(({ buffer }) => buffer as ArrayBuffer))
    post(this.#active.worker, { kind: 'records', records, bytes }, memory)
  }

  #onReport(worker: Worker, report: RecorderReport): void {
    if (report.kind === 'ended') this.#ended(worker, report)
    else if (report.kind === 'wrote' && this.#state !== null) {
      this.#waitingBytes -= report.bytes
      this.#state = { ...this.#state, bytes: report.fileBytes }
    }
  }

  /** Not by a thread that is late to exit: another recording may run by then. */
  #ended(
    worker: Worker,
    how: Pick<RecordState, 'isFailure'> & {
      readonly reason: string
      readonly fileBytes?: number
      readonly counts?: RecordedCounts
    },
  ): void {
    const active = this.#active
    if (active?.worker !== worker || this.#state === null) return
    const { reason, isFailure, fileBytes: bytes = this.#state.bytes, counts = null } = how
    const seconds = this.#secondsOf(active)
    clearTimeout(active.timer)
    this.#stopTaps()
    this.#active = null
    this.#pending = []
    this.#pendingBytes = 0
    this.#state = { ...this.#state, isOver: true, reason, isFailure, seconds, bytes, counts }
    const fields = { path: active.request.path, reason, seconds, bytes }
    if (isFailure) this.#deps.log.warn('recording failed, the service goes on', fields)
    else this.#deps.log.info('recording ended', fields)
    this.#onEnd()
  }

  #stopTaps(): void {
    for (const tap of Object.values(this.taps)) switchTap(tap, false)
  }

  #secondsOf({ startedMs }: Active): number {
    return Math.round(this.#deps.clock.monotonicMs() - startedMs) / 1000
  }

  #numberOf(connection: object): number {
    const known = this.#connections.get(connection)
    if (known !== undefined) return known
    this.#connections.set(connection, ++this.#lastConnection)
    return this.#lastConnection
  }
}

const empty = new Uint8Array(0)

function post(worker: Worker, request: RecorderRequest, memory: readonly ArrayBuffer[]): void {
  worker.postMessage(request, memory)
}

function firstReport(worker: Worker): Promise<RecorderReport> {
  return new Promise((resolve) => {
    worker.once('message', resolve)
    worker.once('error', ({ message }) => resolve({ kind: 'refused', code: '', message }))
  })
}
