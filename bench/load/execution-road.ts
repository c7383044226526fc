// Events per second from a source to frames: the real recording, looped, unpaced, one analysis
// worker. Thread: main of the bench process, which is the pipeline's main thread.
// The plain way does the same with Maps and Sets on one thread; the limit is one thread of C that
// drops, copies, analyses, counts and writes the same (bench/native/road.c). The recording is not
// in the package: SLUICE_TEST_DATA names its folder.
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { decompress } from 'fzstd'
import { systemClock } from '../../src/base/clock.ts'
import { packageRoot } from '../../src/base/package-root.ts'
import { silentLog } from '../../src/base/telemetry/log.ts'
import { Meters } from '../../src/base/telemetry/meters.ts'
import { accountAccess, EventType } from '../../src/chain/evm/event-payload.ts'
import { descriptor } from '../../src/chain/evm/event-ring.ts'
import { readU16, readU32 } from '../../src/chain/evm/words.ts'
import { startExecution } from '../../src/streams/flows/execution.ts'
import type { FrameKind } from '../../src/streams/log/encoded.ts'
import { loadRecording, type Recording } from '../../src/upstream/execution/recording.ts'
import type { Bench, Contender } from '../lib/bench.ts'
import { buildNative, compilerMissing, runNative } from '../lib/native.ts'
import { PlainContention } from '../lib/plain-contention.ts'

const folder = process.env.SLUICE_TEST_DATA ?? resolve(packageRoot(), '../shared/data')
const path = join(folder, 'execution', 'emn-30b-15m.snapshot.zst')
/** Content of the recording. */
const blocksEach = 30
const eventsEach = 136_891
const uniqueSlots = 29_720

const missing = () => (existsSync(path) ? undefined : 'no recording (SLUICE_TEST_DATA)')

const plain: Contender = plainWay()
const road: Contender = roadWay()
const native: Contender = nativeWay()

export const bench: Bench = {
  name: 'execution-road',
  question: 'How many execution events per second become frames?',
  cores: 3,
  baseline: plain,
  candidates: [road, native],
  goals: [
    { contender: road.name, to: native.name, figure: 'opsPerSecond', atLeast: 0.5 },
    { contender: road.name, figure: 'opsPerSecond', atLeast: 1_000_000 },
  ],
  // Each way unpacks the recording once more.
  smoke: [road.name],
  verify({ evidence }) {
    if (evidence?.gaps) return `${String(evidence.gaps)} gaps at full speed`
    if (evidence?.unique === uniqueSlots) return undefined
    return `${String(evidence?.unique)} unique slots in a pass, not ${uniqueSlots}`
  },
}

function roadWay(): Contender {
  return {
    name: 'road, 1 analysis worker',
    missing,
    async run({ seconds }) {
      const told = { frames: 0, blocks: 0, gaps: 0, unique: 0 }
      const events = {
        append(kind: FrameKind, payload: Uint8Array) {
          told.frames += 1
          if (kind === 'Gap') told.gaps += 1
          if (kind !== 'ContentionData') return told.frames
          if (told.blocks < blocksEach) told.unique += uniqueOf(payload)
          told.blocks += 1
          return told.frames
        },
      }
      const generator = { seed: 1, tps: 0, skew: 0, blockMs: 400 }
      const section = { source: 'snapshot', path, speed: 'full', loop: true, generator } as const
      const running = await startExecution(section, {
        events,
        clock: systemClock,
        log: silentLog,
        meters: new Meters(),
        workers: 1,
        onDown(fault) {
          throw fault
        },
      })
      // The first pass is the warm-up: loading, compiling, checking. A gap fails `verify`.
      await until(() => told.blocks >= blocksEach || told.gaps > 0)
      const before = told.blocks
      const start = performance.now()
      await until(() => performance.now() - start >= seconds * 1000)
      const secs = (performance.now() - start) / 1000
      const blocks = told.blocks - before
      await running.stop()
      const opsPerSecond = (blocks * eventsEach) / blocksEach / secs
      return { opsPerSecond, evidence: { unique: told.unique, gaps: told.gaps } }
    },
  }
}

function plainWay(): Contender {
  let recording: Recording | null = null
  return {
    name: 'Maps and Sets, one thread',
    missing,
    async prepare() {
      recording = await loadRecording(path)
    },
    async run({ seconds }) {
      const start = performance.now()
      let passes = 0
      let unique = 0
      do {
        unique = playPlain(recording!)
        passes += 1
      } while (performance.now() - start < seconds * 1000)
      const secs = (performance.now() - start) / 1000
      return { opsPerSecond: (passes * eventsEach) / secs, evidence: { unique } }
    },
    async close() {
      recording = null
    },
  }
}

function nativeWay(): Contender {
  let program = ''
  let scratch = ''
  return {
    name: 'C, one thread',
    missing: async () => missing() ?? (await compilerMissing()),
    async prepare() {
      program = await buildNative('road')
      scratch = mkdtempSync(join(tmpdir(), 'sluice-bench-road-'))
      writeFileSync(join(scratch, 'ring'), decompress(readFileSync(path)))
    },
    async run({ seconds }) {
      const answer = await runNative(program, [join(scratch, 'ring'), seconds])
      return { opsPerSecond: answer.perSecond!, evidence: { unique: answer.unique } }
    },
    async close() {
      if (scratch !== '') rmSync(scratch, { recursive: true, force: true })
    },
  }
}

/** One pass: contention per block, a full count of accounts, both as JSON. */
function playPlain(recording: Recording): number {
  let unique = 0
  let contention = new PlainContention()
  const accounts = new Map<string, number>()
  for (let index = 0; index < recording.count; index++) {
    const at = index * descriptor.bytes
    const head = recording.descriptors.subarray(at, at + descriptor.bytes)
    const type = readU16(head, descriptor.type)
    const bytes = recording.payloadOf(index)
    const payload = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
    if (type === EventType.BlockStart) contention = new PlainContention()
    else if (type === EventType.AccountAccess) {
      const { address } = accountAccess
      const key = payload.toString('hex', address, address + 20)
      accounts.set(key, (accounts.get(key) ?? 0) + 1)
    } else if (type === EventType.BlockEnd) {
      const result = contention.result()
      unique += result.total_unique_slots
      const top = [...accounts].sort((a, b) => b[1] - a[1]).slice(0, 10)
      Buffer.from(JSON.stringify({ result, top }))
    } else contention.event(type, readU32(head, descriptor.txn), payload)
  }
  return unique
}

function uniqueOf(payload: Uint8Array): number {
  const value = JSON.parse(Buffer.from(payload).toString('latin1')) as {
    total_unique_slots: number
  }
  return value.total_unique_slots
}

async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await new Promise((resolve) => setTimeout(resolve, 10))
}
