// What a shred costs per destination as the fan-out grows, by batches and by GSO segment batches.
// Thread: main of the bench process; each size is a process of its own.
// The receiving socket is never read: the kernel drops what its small buffer does not take, so
// only sending is measured.
import {
  boundPort,
  type Libc,
  loadLibc,
  openSocket,
  pinned,
} from '../../src/base/transport/udp-batch.ts'
import {
  BatchSender,
  batchMax,
  ShredVectors,
  slotBytes,
} from '../../src/base/transport/udp-send.ts'
import { Caps } from '../../src/products/shredstream/target-tracker.ts'
import { growthBench, type OpenWorks, type Work } from '../lib/growth.ts'

const dataBytes = 1203
const codeBytes = 1228
const noCap = { packetsPerSecond: Number.MAX_SAFE_INTEGER, bytesPerSecond: Number.MAX_SAFE_INTEGER }

export const bench = growthBench({
  name: 'growth-destinations',
  question: 'What does a shred cost for each of more destinations?',
  axis: 'destinations',
  sizes: [1, 4, 16, 64, 256, 512],
  lines: ['one shred at a time', 'batch of 48', 'GSO batch of 48'],
  file: import.meta.url,
  missing: async () => ((await loadLibc()) === null ? 'needs koffi and glibc' : undefined),
})

export const open: OpenWorks = async (size) => {
  const libc = (await loadLibc())!
  const sink = openSocket(libc, { ...socket, host: '0.0.0.0' })
  const port = boundPort(libc, sink)
  const work = (shreds: number, segments: boolean) => workOf(libc, { size, port, shreds, segments })
  return {
    'one shred at a time': work(1, false),
    [`batch of ${batchMax}`]: work(batchMax, false),
    [`GSO batch of ${batchMax}`]: work(batchMax, true),
  }
}

const socket = { port: 0, bufferBytes: 4096, timeoutMs: 20, keepsErrors: false, isV6Only: false }

function workOf(
  libc: Libc,
  about: { size: number; port: number; shreds: number; segments: boolean },
): Work {
  const { size, port, shreds, segments } = about
  const fd = openSocket(libc, { ...socket, host: '0.0.0.0', bufferBytes: 4 * 1024 * 1024 })
  const vectors = new ShredVectors(libc, [dataBytes, codeBytes])
  const arena = pinned(batchMax * slotBytes)
  for (let index = 0; index < shreds; index++)
    vectors.add(0, libc.addressOf(arena) + index * slotBytes)
  let failed = 0
  const sender = new BatchSender(libc, fd, vectors, {
    events: { failed: (_row, _errno, lost) => (failed += lost), refused() {} },
    segments,
  })
  const targets = Array.from({ length: size }, (_, row) => ({
    row,
    address: { family: 4, words: [0, 0, 0, 0x7f000101 + row] as const } as const,
    port,
  }))
  sender.setTargets(targets)
  const rows = targets.map(({ row }) => row)
  const caps = new Caps(noCap, size)
  return {
    step() {
      caps.charge(rows, shreds, shreds * dataBytes, performance.now())
      sender.send()
      return shreds * size
    },
    problem: () => (failed === 0 ? undefined : `${failed} shreds were not sent`),
  }
}
