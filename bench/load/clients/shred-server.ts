// The shred worker as the product runs it, checks and all, between a probe's two ends.
// Thread: main of its own process, which only starts the worker.
import { parseAddress, parseCidr } from '../../../src/base/cidr.ts'
import { systemClock } from '../../../src/base/clock.ts'
import { silentLog } from '../../../src/base/telemetry/log.ts'
import { DedicatedWorker } from '../../../src/base/threads/supervisor.ts'
import { lastCore, pollCoreOf } from '../../../src/products/shredstream/core.ts'
import {
  pauseCauses,
  pausesOf,
  SharedStats,
} from '../../../src/products/shredstream/shared-stats.ts'
import type { WorkerSettings } from '../../../src/products/shredstream/shred-components.ts'
import { TargetTable } from '../../../src/products/shredstream/targets.ts'
import { windowBytes } from '../../../src/products/shredstream/window.ts'
import { serveBench } from '../../../test/testkit/process.ts'

export interface ServerInput {
  readonly io: 'batch' | 'poll' | 'dgram'
  readonly targets: number
  readonly outPort: number
}

/** Counts of pauses within each bound, by cause. */
export type PauseOutput = readonly (readonly number[])[]

let worker: DedicatedWorker | null = null
let stats = new SharedStats()

serveBench({
  async start({ io, targets, outPort }: ServerInput): Promise<number> {
    stats = new SharedStats()
    const table = new TargetTable()
    table.write(
      Array.from({ length: targets }, (_, row) => ({
        row,
        kind: 'serve' as const,
        generation: 1,
        address: parseAddress(`127.0.1.${row + 1}`)!,
        port: outPort,
        challenges: 0,
        nonce: [0, 0, 0, 0] as const,
      })),
    )
    const settings: WorkerSettings = {
      host: '127.0.0.1',
      port: 0,
      sourceHosts: ['0.0.0.0'],
      sourcePort: 0,
      sources: [parseCidr('127.0.0.0/8')!],
      version: 1,
      io,
      core: io === 'poll' ? pollCoreOf(lastCore) : null,
      idle: 'sleep',
      segments: true,
      leaders: null,
      recover: false,
      caps: { packetsPerSecond: 1e9, bytesPerSecond: 1e12 },
      bufferBytes: 32 * 1024 * 1024,
      warmsUp: true,
    }
    worker = await DedicatedWorker.start(
      {
        name: 'shreds',
        entry: 'shreds',
        data: {
          stats: stats.buffer,
          targets: table.buffer,
          window: new SharedArrayBuffer(windowBytes),
          settings,
        },
      },
      {
        clock: systemClock,
        log: silentLog,
        onDown(fault) {
          throw fault
        },
      },
    )
    return stats.sockets.get(0, 'ingestPort')
  },
  pauses: (): PauseOutput => pauseCauses.map((_, row) => pausesOf(stats, row).counts),
  totals: () => stats.totals.row(0),
  async stop(): Promise<Readonly<Record<string, number>>> {
    await worker?.stop()
    return stats.totals.row(0)
  },
})
