// A stream log whose thread runs when a test says so.
import { silentLog } from '../../src/base/telemetry/log.ts'
import type { SolanaUpdate } from '../../src/chain/solana/updates.ts'
import { SolanaUpstream } from '../../src/streams/flows/solana-upstream.ts'
import { openSolanaHub } from '../../src/streams/geyser/hub.ts'
import {
  type LogBounds,
  type LogRequest,
  LogThread,
} from '../../src/streams/segments/segment-writer.ts'
import { StreamLog, type ThreadEvents } from '../../src/streams/segments/stream-log.ts'
import { batchFrom, messageOf } from './geyser-messages.ts'
import { inBatches } from './replayed-updates.ts'

export const hour: LogBounds = { keepMs: 3_600_000, bytesMax: 1e9, compress: 'none' }

export interface LogServer {
  readonly log: StreamLog
  readonly sink: SolanaUpstream
  /** Stands in for the thread: requests wait until they are run. */
  readonly thread: { run(): void; fail: string | null; isGone: boolean; requests: LogRequest[] }
  readonly errors: string[]
  feed(updates: readonly SolanaUpdate[], seed?: number): Promise<void>
}

/** What happens before the log is open. */
export interface Opening {
  readonly startFails?: boolean
  readonly meanwhile?: (hub: StreamLog['hub']) => void
}

export async function serveLog(
  folder: string,
  bounds = hour,
  memorySlots = 4,
  { startFails = false, meanwhile = () => {} }: Opening = {},
): Promise<LogServer> {
  const hub = openSolanaHub({ replaySlots: memorySlots, replayBytesMax: 1e9 })
  let events: ThreadEvents | null = null
  const writer = new LogThread(folder, bounds, (report) => events!.report(report))
  const thread: LogServer['thread'] = {
    fail: null,
    isGone: false,
    requests: [],
    run() {
      for (let request = take(); request !== undefined; request = take())
        if (thread.fail === null || request.kind === 'open') writer.take(request)
        else events!.report({ kind: 'failed', reason: thread.fail })
    },
  }
  const take = () => thread.requests.shift()
  const errors: string[] = []
  let starts = 0
  const log = new StreamLog(hub, {
    ...{ folder, bounds, log: { ...silentLog, error: (text: string) => void errors.push(text) } },
    startThread: async (own) => {
      if (starts++ === 0 && startFails) throw new Error('no more threads')
      events = own
      const post = (request: LogRequest) => !thread.isGone && thread.requests.push(request) > 0
      return { post, stop: async () => {} }
    },
  })
  await turn()
  meanwhile(hub)
  thread.run()
  await log.ready
  const sink = new SolanaUpstream(hub, { bankSalt: 'salt', log: silentLog, earlier: log })
  const feed = async (updates: readonly SolanaUpdate[], seed = 1) => {
    for (const batch of inBatches(updates, seed)) {
      sink.batch(batchFrom(batch.map((update) => messageOf(update))))
      await turn()
      thread.run()
    }
  }
  return { log, sink, thread, errors, feed }
}

export const turn = () => new Promise((resolve) => setImmediate(resolve))
