// Events per CPU second of each execution source, beside the plain way: an object per event.
// Thread: main of the bench process. All read the same generated chain; nothing is paced.
import { closeSync, mkdtempSync, openSync, readFileSync, readSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isWellFormed } from '../../src/chain/evm/event-payload.ts'
import { descriptor, parseRingHeader, ringHeader } from '../../src/chain/evm/event-ring.ts'
import { readU16, readU64 } from '../../src/chain/evm/words.ts'
import {
  Generator,
  type GeneratorOptions,
} from '../../src/upstream/execution/generator/generator.ts'
import { VirtualPacer } from '../../src/upstream/execution/pacer.ts'
import { RingFileReader } from '../../src/upstream/execution/ring-file-reader.ts'
import { Snapshot } from '../../src/upstream/execution/snapshot.ts'
import type { ExecutionSink, ExecutionSource } from '../../src/upstream/ports.ts'
import { EventRingWriter } from '../../test/testkit/event-ring-writer.ts'
import type { Bench, Contender, Measurement } from '../lib/bench.ts'

const chain: GeneratorOptions = { seed: 1, tps: 515, skew: 1.1, blockMs: 400 }
/** Fits the smallest ring. */
const recordedEvents = 60_000
/** The clock is asked after this many events. */
const lookEvents = 4096

/** Counts, checks one event in sixteen, and ends the source when the time is over. */
class CountingSink implements ExecutionSink {
  events = 0
  gaps = 0
  misshapen = 0
  #lastSeqno = 0
  jumps = 0
  readonly #isEnough: (events: number) => boolean
  onEnough: () => void = () => {}

  constructor(isEnough: (events: number) => boolean) {
    this.#isEnough = isEnough
  }

  event(bytes: Uint8Array, payload: Uint8Array, at = 0, length = payload.length): void {
    const seqno = readU64(bytes, descriptor.seqno)
    if (seqno !== this.#lastSeqno + 1 && seqno !== 1) this.jumps += 1
    this.#lastSeqno = seqno
    this.events += 1
    const type = readU16(bytes, descriptor.type)
    if (this.events % 16 === 0 && !isWellFormed(type, payload, at, length)) this.misshapen += 1
    if (this.events % lookEvents === 0 && this.#isEnough(this.events)) this.onEnough()
  }

  gap(): void {
    this.gaps += 1
  }

  flush(): void {}
}

let folder = ''
let ringPath = ''

/** Writes the ring that snapshot, live reader and baseline read. */
async function prepareRing(): Promise<void> {
  if (folder !== '') return
  folder = mkdtempSync(join(tmpdir(), 'sluice-bench-'))
  ringPath = join(folder, 'ring')
  const writer = new EventRingWriter(ringPath)
  const source = new Generator(chain, new VirtualPacer())
  await source.run({
    event(bytes, payload) {
      if (writer.seqno < recordedEvents) writer.event(bytes, payload)
      else source.stop()
    },
    gap() {},
    flush() {},
  })
  writer.close()
}

async function removeRing(): Promise<void> {
  if (folder !== '') rmSync(folder, { recursive: true, force: true })
  folder = ''
}

/** From the first look on, so that loading a file does not count; by this process's CPU time. */
function timedSink(seconds: number): { sink: CountingSink; measure: () => Measurement } {
  let began = 0
  let usedFrom = 0
  const sink = new CountingSink((events) => {
    if (events === lookEvents) {
      began = performance.now()
      usedFrom = cpuSeconds()
    }
    return performance.now() - began >= seconds * 1000
  })
  const measure = () => {
    const { events, gaps, misshapen, jumps } = sink
    const opsPerSecond = (events - lookEvents) / (cpuSeconds() - usedFrom)
    return { opsPerSecond, evidence: { gaps, misshapen, jumps } }
  }
  return { sink, measure }
}

function cpuSeconds(): number {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1e6
}

function sourceContender(name: string, open: () => ExecutionSource): Contender {
  return {
    name,
    prepare: prepareRing,
    async run({ seconds }) {
      const source = open()
      const { sink, measure } = timedSink(seconds)
      sink.onEnough = () => source.stop()
      await source.run(sink)
      return measure()
    },
    close: removeRing,
  }
}

/** The whole ring again and again by the reader protocol. */
const liveContender: Contender = {
  name: 'live ring file',
  prepare: prepareRing,
  async run({ seconds }) {
    const fd = openSync(ringPath, 'r')
    const header = new Uint8Array(ringHeader.usedBytes)
    readSync(fd, header, 0, header.length, 0)
    const parsed = parseRingHeader(header)
    if (!parsed.ok) throw new Error(parsed.refusal.message)
    const { sink, measure } = timedSink(seconds)
    let isOver = false
    sink.onEnough = () => {
      isOver = true
    }
    while (!isOver) {
      const reader = new RingFileReader(fd, parsed.value, 0)
      while (!isOver && reader.readBatch(sink) === 'read');
    }
    closeSync(fd)
    return measure()
  },
  close: removeRing,
}

/** What one writes first: the file in memory, every field read, an object for every event. */
const objectContender: Contender = {
  name: 'an object per event',
  prepare: prepareRing,
  async run({ seconds }) {
    const file = readFileSync(ringPath)
    const payloadBase = ringHeader.pageBytes + Number(file.readBigUInt64LE(40)) * descriptor.bytes
    const { sink, measure } = timedSink(seconds)
    let isOver = false
    sink.onEnough = () => {
      isOver = true
    }
    while (!isOver)
      for (let at = ringHeader.pageBytes; !isOver && at < payloadBase; at += descriptor.bytes) {
        if (file.readBigUInt64LE(at) === 0n) break
        const place = payloadBase + Number(file.readBigUInt64LE(at + descriptor.payloadOffset))
        const event = {
          seqno: file.readBigUInt64LE(at),
          type: file.readUInt16LE(at + descriptor.type),
          timeNs: file.readBigUInt64LE(at + descriptor.timeNs),
          txn: Number(file.readBigUInt64LE(at + descriptor.txn)),
          descriptor: file.subarray(at, at + descriptor.bytes),
          payload: file.subarray(place, place + file.readUInt32LE(at + descriptor.payloadSize)),
        }
        sink.event(event.descriptor, event.payload)
      }
    return measure()
  },
  close: removeRing,
}

export const bench: Bench = {
  name: 'execution-sources',
  question: 'How many execution events can each source hand over per second of one core?',
  cores: 1,
  baseline: objectContender,
  candidates: [
    sourceContender('generator', () => new Generator(chain, new VirtualPacer())),
    sourceContender('generator at 10,000 TPS', () => {
      return new Generator({ ...chain, tps: 10_000 }, new VirtualPacer())
    }),
    sourceContender('snapshot, looped', () => {
      return new Snapshot(
        { path: ringPath, speed: 'full', loop: true, blockMs: 400 },
        new VirtualPacer(),
      )
    }),
    liveContender,
  ],
  goals: [
    { contender: 'generator', figure: 'opsPerSecond', atLeast: 115_000 },
    { contender: 'snapshot, looped', figure: 'opsPerSecond', atLeast: 1_000_000 },
    { contender: 'live ring file', figure: 'opsPerSecond', atLeast: 1_000_000 },
  ],
  verify({ evidence }) {
    const wrong = Object.entries(evidence ?? {}).filter(([, count]) => count !== 0)
    return wrong.length === 0 ? undefined : wrong.map(([name, n]) => `${name}: ${n}`).join(', ')
  },
}
