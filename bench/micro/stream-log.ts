// What it costs to keep a set's stream on disk: megabytes per second of processor time, of all
// threads, against plain writes of the same bytes to files of the same size (as dd does), and
// against the hub that is fed without a log: its part is in the log's figures, too.
// Thread: main of the bench process; the log writes in a thread of its own.
import { closeSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { systemClock } from '../../src/base/clock.ts'
import { silentLog } from '../../src/base/telemetry/log.ts'
import { framePrefixBytes } from '../../src/base/transport/grpc-stream.ts'
import { batchOf, type GeyserBatch } from '../../src/chain/solana/geyser-batch.ts'
import { accountUpdate } from '../../src/chain/solana/received-batch.ts'
import { SolanaUpstream } from '../../src/streams/flows/solana-upstream.ts'
import { frameOf, updateTag } from '../../src/streams/geyser/frame.ts'
import { openSolanaHub } from '../../src/streams/geyser/hub.ts'
import {
  StreamLog,
  startWriterThread,
  type ThreadEvents,
} from '../../src/streams/segments/stream-log.ts'
import type { Bench, Contender, Measurement, RoundContext } from '../lib/bench.ts'
import { usedSeconds } from '../lib/processor-time.ts'

const accountBytes = 60 * 1024
const accountsPerBatch = 4
/** About 12 MB. */
const batchesPerSlot = 48
/** Mainnet's stream with all accounts. */
const mainnetMbPerSecond = 225
const shareOfCore = 0.15
const bytesKept = 256 * 1024 * 1024
const filesKept = 32
const warmUpMs = 1_500
const plain = 'plain writes'
const alone = 'hub alone'
const kept = 'stream log'

export const bench: Bench = {
  name: 'stream-log',
  question: 'How many megabytes of a stream are kept on disk per second of one core?',
  cores: 2,
  baseline: { name: plain, run: (context) => measure(context, writePlainly) },
  candidates: [
    { name: alone, run: (context) => measure(context, feedHub) },
    logContender(kept, 'none'),
    logContender(`${kept}, zstd`, 'zstd'),
  ],
  goals: [{ contender: kept, figure: 'opsPerSecond', atLeast: mainnetMbPerSecond / shareOfCore }],
  smoke: [plain, kept],
  verify: ({ evidence }) => (evidence?.isComplete === true ? undefined : 'not all was written'),
}

interface Target {
  write(slot: number): Promise<void>
  /** Whether everything is on disk. */
  close(): Promise<boolean>
}

function logContender(name: string, compress: 'none' | 'zstd'): Contender {
  return { name, run: (context) => measure(context, (folder) => writeLog(folder, compress)) }
}

async function measure(
  { seconds, smoke }: RoundContext,
  open: (folder: string) => Promise<Target>,
): Promise<Measurement> {
  const folder = mkdtempSync(join(tmpdir(), 'bench-stream-log-'))
  const target = await open(folder)
  try {
    let slot = 1
    const writeFor = async (ms: number) => {
      const endMs = performance.now() + ms
      do await target.write(slot++)
      while (performance.now() < endMs)
    }
    // Until the functions that it runs are compiled.
    await writeFor(smoke ? 0 : warmUpMs)
    const [cpuBefore, first] = [usedSeconds(), slot]
    await writeFor(seconds * 1_000)
    const isComplete = await target.close()
    const megabytes = ((slot - first) * slotBytes) / 1e6
    return { opsPerSecond: megabytes / (usedSeconds() - cpuBefore), evidence: { isComplete } }
  } finally {
    rmSync(folder, { recursive: true })
  }
}

async function writePlainly(folder: string): Promise<Target> {
  const { bytes } = batchIn(1)
  const files: string[] = []
  let [file, left, written] = [-1, 0, 0]
  const next = () => {
    if (file >= 0) closeSync(file)
    const path = join(folder, String(written))
    file = openSync(path, 'w')
    left = bytesKept / filesKept
    if (files.push(path) > filesKept) rmSync(files.shift()!)
  }
  return {
    async write() {
      for (let count = 0; count < batchesPerSlot; count++) {
        if (left <= 0) next()
        written += writeSync(file, bytes)
        left -= bytes.length
      }
    },
    async close() {
      closeSync(file)
      return written > 0
    },
  }
}

async function feedHub(): Promise<Target> {
  const sink = new SolanaUpstream(openHub(), { log: silentLog })
  sink.opened(1)
  return {
    async write(slot) {
      for (let count = 0; count < batchesPerSlot; count++) sink.batch(batchIn(slot))
    },
    close: async () => true,
  }
}

function openHub() {
  return openSolanaHub({ replaySlots: 2, replayBytesMax: 1e9, unfinalizedBytesMax: 1e8 })
}

async function writeLog(folder: string, compress: 'none' | 'zstd'): Promise<Target> {
  const hub = openHub()
  const bounds = { keepMs: 3_600_000, bytesMax: bytesKept, compress }
  const own = { folder, bounds, log: silentLog }
  let onReport = () => {}
  const log = new StreamLog(hub, {
    ...own,
    startThread: (events) => {
      const report: ThreadEvents['report'] = (one) => {
        events.report(one)
        onReport()
      }
      return startWriterThread({ ...own, clock: systemClock }, { ...events, report })
    },
  })
  await log.ready
  const sink = new SolanaUpstream(hub, { log: silentLog })
  sink.opened(1)
  let newest = 0
  const writtenUpTo = async (eras: number) => {
    while (log.counts().writtenEras < eras && log.counts().isUp)
      await new Promise<void>((resolve) => {
        onReport = resolve
      })
  }
  return {
    async write(slot) {
      newest = slot
      for (let count = 0; count < batchesPerSlot; count++) sink.batch(batchIn(slot))
      // An era is closed by the next; few wait, as with a node that sends at this pace.
      await writtenUpTo(slot - 2)
    },
    async close() {
      await writtenUpTo(newest - 1)
      const { writtenEras, resets, isUp } = log.counts()
      await log.stop()
      return isUp && resets === 0 && writtenEras === newest - 1
    },
  }
}

const data = Uint8Array.from({ length: accountBytes }, (_, at) => (at * 2654435761) >>> 24)
const batches = new Map<number, GeyserBatch>()

/** A copy for each use: a batch is recognised by its object. */
function batchIn(slot: number): GeyserBatch {
  const known = batches.get(slot) ?? makeBatch(slot)
  batches.clear()
  batches.set(slot, known)
  return { ...known }
}

function makeBatch(slot: number): GeyserBatch {
  const frames = Array.from({ length: accountsPerBatch }, (_, at) => {
    const key = new Uint8Array(32).fill(at)
    const update = accountUpdate(
      { slot, createdAtMs: 0 },
      {
        ...{ pubkey: key, owner: key, txnSignature: null, data, executable: false },
        ...{ lamports: 1n, rentEpoch: 0n, writeVersion: BigInt(at) },
      },
    )
    return frameOf(updateTag.account, Buffer.from(update.body), 0).subarray(framePrefixBytes)
  })
  const offsets: number[] = []
  let at = 0
  for (const { length } of frames) {
    offsets.push(at, at + length)
    at += length
  }
  return batchOf(Buffer.concat(frames), offsets, 0)
}

const slotBytes = batchIn(1).bytes.length * batchesPerSlot
