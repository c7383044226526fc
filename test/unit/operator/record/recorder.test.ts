// The main thread's side of a recording, with a thread that does what the test says.
import { EventEmitter } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeEach, expect, it, vi } from 'vitest'
import { systemClock } from '../../../../src/base/clock.ts'
import { silentLog } from '../../../../src/base/telemetry/log.ts'
import { Recorder } from '../../../../src/operator/record/recorder.ts'
import type { RecorderRequest } from '../../../../src/operator/record/recorder-thread.ts'

class FakeWorker extends EventEmitter {
  readonly posted: RecorderRequest[] = []
  isTerminated = false

  constructor() {
    super()
    workers.push(this)
  }

  postMessage(request: RecorderRequest): void {
    this.posted.push(request)
  }

  async terminate(): Promise<number> {
    this.isTerminated = true
    return 0
  }

  report(report: object): void {
    this.emit('message', report)
  }
}

const workers: FakeWorker[] = vi.hoisted(() => [])
vi.mock('node:worker_threads', async (original) => ({
  ...(await original<object>()),
  Worker: vi.fn(function make() {
    return new FakeWorker()
  }),
}))

const folder = mkdtempSync(join(tmpdir(), 'recorder-main-'))
const call = {
  ...{ product: 'metrics', method: 'GET /health', set: null, connection: null, status: 200 },
  ...{ isFromStream: false, request: new Uint8Array(0), answer: null },
}
const bytesMax = 1024 * 1024
let recorder: Recorder

beforeEach(() => {
  workers.length = 0
  recorder = new Recorder({ clock: systemClock, log: silentLog, version: '1.0.0', bytesMax })
})

afterAll(() => rmSync(folder, { recursive: true, force: true }))

function begin() {
  const request = { path: join(folder, 'a.rec'), forMs: 60_000, bytesMax: 1e9 }
  return recorder.start({ ...request, calls: 'digest' }, {})
}

async function start(): Promise<FakeWorker> {
  const started = begin()
  const worker = workers.at(-1)!
  worker.report({ kind: 'opened' })
  expect(await started).toMatchObject({ isOver: false })
  return worker
}

const ended = { kind: 'ended', reason: 'done', isFailure: false, fileBytes: 9, counts: null }

it('is one recording when the command asks again', async () => {
  const asked = [begin(), begin()]
  workers.at(-1)!.report({ kind: 'opened' })
  const [first, second] = await Promise.all(asked)
  expect(second).toEqual(first)
  expect(await begin()).toMatchObject({ isOver: false })
  expect(workers).toHaveLength(1)
})

it('goes on when the thread of the recording before it exits late', async () => {
  const first = await start()
  first.report(ended)
  expect(recorder.state).toMatchObject({ isOver: true, reason: 'done' })
  const second = await start()
  first.emit('exit', 0)
  expect(recorder.state).toMatchObject({ isOver: false })
  second.emit('exit', 1)
  expect(recorder.state).toMatchObject({ isOver: true, isFailure: true })
})

it('counts what a record takes beside its body: empty ones do not fill the memory either', async () => {
  const { posted } = await start()
  for (let bytes = 0; bytes < bytesMax; bytes += 1_000) recorder.call(call)
  expect(posted).toEqual([
    { kind: 'finish', reason: 'the disk is too slow for it', isFailure: true },
  ])
})

it('sends the records of many turns in one message, and a megabyte of them without waiting', async () => {
  recorder = new Recorder({ clock: systemClock, log: silentLog, version: '1.0.0' })
  const { posted } = await start()
  vi.useFakeTimers()
  try {
    for (let turn = 0; turn < 3; turn++) {
      recorder.call(call)
      await vi.advanceTimersByTimeAsync(10)
    }
    expect(posted).toEqual([])
    await vi.advanceTimersByTimeAsync(20)
    expect(posted).toMatchObject([{ kind: 'records', records: [{}, {}, {}] }])
    const long = { ...call, request: new Uint8Array(bytesMax / 2) }
    recorder.call(long)
    recorder.call(long)
    expect(posted).toMatchObject([{}, { kind: 'records', records: [{}, {}] }])
  } finally {
    vi.useRealTimers()
  }
})

it('starts nothing once the server stops', async () => {
  const started = begin()
  await recorder.stop()
  workers[0]!.report({ kind: 'opened' })
  expect(await started).toBe('the server is stopping')
  expect([workers[0]!.isTerminated, recorder.state]).toEqual([true, null])
})
