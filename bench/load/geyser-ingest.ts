// Updates from a node's geyser stream into the hub, without customers, beside a bare node:http2
// client that counts the same bytes. Thread: main of the bench process; node and readers are
// processes of their own. ops/s are bytes read per second of CPU time: of all threads of the
// reader, or of its main thread alone, which also serves every endpoint.

import { setTimeout as sleep } from 'node:timers/promises'
import { type BenchProcess, startProcess } from '../../test/testkit/process.ts'
import type { Bench, Contender } from '../lib/bench.ts'
import type { NodeShape } from './clients/geyser-node.ts'
import type { ReaderCounts } from './clients/geyser-readers.ts'

type Kind = 'ours' | 'http2'
type Share = 'all threads' | 'main thread'

/** 2 kB, and the mean size of mainnet: 225 MB/s in 60,000 updates. */
const shapes: readonly NodeShape[] = [
  { length: 2_000, perSlot: 2_000, transactions: 400, perFrame: 8 },
  { length: 2_000, perSlot: 2_000, transactions: 400, perFrame: 1 },
  { length: 4_500, perSlot: 2_000, transactions: 400, perFrame: 1 },
]
const mainnetBytes = 225e6
/** Updates per second: more than a reader takes, so that the node is never idle. */
const fullRate = 1_000_000
const quietMs = 20

export const bench: Bench = {
  name: 'geyser-ingest',
  question: 'How many bytes of a node reach the hub per second of CPU time?',
  cores: 2,
  baseline: contender('http2', shapes[0]!, 'all threads'),
  candidates: shapes
    .flatMap((shape) => [
      contender('http2', shape, 'all threads'),
      contender('ours', shape, 'all threads'),
      contender('ours', shape, 'main thread'),
    ])
    .slice(1),
  goals: [
    ...shapes.map((shape) => ({
      contender: nameOf('ours', shape, 'all threads'),
      figure: 'opsPerSecond' as const,
      atLeast: 400e6,
    })),
    // Under 30 % busy at the volume of mainnet.
    {
      contender: nameOf('ours', shapes[2]!, 'main thread'),
      figure: 'opsPerSecond',
      atLeast: mainnetBytes / 0.3,
    },
  ],
  smoke: (['http2', 'ours'] as const).map((kind) => nameOf(kind, shapes[0]!, 'all threads')),
  verify({ evidence }) {
    const { bytes = 0, isCounted } = evidence ?? {}
    if (bytes === 0) return 'no bytes came'
    return isCounted === true ? undefined : 'updates were lost'
  },
}

function nameOf(kind: Kind, { length, perFrame }: NodeShape, share: Share): string {
  const name = kind === 'ours' ? `node to hub, ${share}` : 'node:http2 alone'
  return `${name}, ${perFrame} of ${length} B a frame`
}

function contender(kind: Kind, shape: NodeShape, share: Share): Contender {
  return {
    name: nameOf(kind, shape, share),
    missing: () =>
      share === 'all threads' || process.platform === 'linux'
        ? undefined
        : 'only Linux counts the CPU time of a thread',
    async prepare() {
      await pairOf(kind, shape)
    },
    async run({ seconds }) {
      const { node, reader } = await pairOf(kind, shape)
      const before = await reader.call<ReaderCounts>('counts')
      await node.call('pace', fullRate)
      do await sleep(seconds * 1000)
      while ((await reader.call<ReaderCounts>('counts')).bytes === before.bytes)
      await node.call('pace', 0)
      const after = await quiet(reader)
      const bytes = after.bytes - before.bytes
      const updates = after.updates - before.updates
      const used = share === 'all threads' ? after.cpu - before.cpu : after.mainCpu - before.mainCpu
      const isCounted = kind === 'http2' || updates * shape.length > bytes * 0.8
      return { opsPerSecond: bytes / used, evidence: { bytes, updates, used, isCounted } }
    },
    close: stopAll,
  }
}

interface Pair {
  readonly node: BenchProcess
  readonly reader: BenchProcess
}

const pairs = new Map<string, Promise<Pair>>()

function pairOf(kind: Kind, shape: NodeShape): Promise<Pair> {
  const key = `${kind} ${shape.length} ${shape.perFrame}`
  const known = pairs.get(key) ?? start(kind, shape)
  pairs.set(key, known)
  return known
}

async function start(kind: Kind, shape: NodeShape): Promise<Pair> {
  const node = startProcess(new URL('./clients/geyser-node.js', import.meta.url))
  const reader = startProcess(new URL('./clients/geyser-readers.js', import.meta.url))
  await reader.call(kind, await node.call<number>('open', shape))
  return { node, reader }
}

/** The counts when nothing is on its way any more. */
async function quiet(reader: BenchProcess): Promise<ReaderCounts> {
  let before = await reader.call<ReaderCounts>('counts')
  for (;;) {
    await sleep(quietMs)
    const now = await reader.call<ReaderCounts>('counts')
    if (now.bytes === before.bytes && now.updates === before.updates) return now
    before = now
  }
}

async function stopAll(): Promise<void> {
  const started = await Promise.all(pairs.values())
  pairs.clear()
  await Promise.all(started.flatMap(({ node, reader }) => [reader.stop(), node.stop()]))
}
