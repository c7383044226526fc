// Reports that the devnode's process sends to its parent: log lines, and stats once a second.
// Thread: main of the devnode. Counts are those since the last stats, so that the parent's
// counters keep rising when a new process starts at zero.
import type { Log, LogFields } from '../base/telemetry/log.ts'
import type { ChainCounters } from './meters.ts'

export interface LogLine {
  readonly level: 'debug' | 'info' | 'warn' | 'error'
  readonly msg: string
  readonly fields: LogFields
}

export interface DevnodeStats {
  readonly slots: {
    readonly processed: number
    readonly confirmed: number
    readonly finalized: number
  }
  readonly accounts: number
  readonly historyBytes: number
  readonly transactions: TransactionCounts
  /** Duration of each snapshot. */
  readonly snapshotSeconds: readonly number[]
}

interface TransactionCounts {
  landed: number
  failed: number
  rejected: number
}

/** A log whose lines the parent writes under the area it chose. */
export function forwardedLog(send: (line: LogLine) => void): Log {
  const at =
    (level: LogLine['level']) =>
    (msg: string, fields: LogFields = {}) =>
      send({ level, msg, fields })
  const log: Log = {
    debug: at('debug'),
    info: at('info'),
    warn: at('warn'),
    error: at('error'),
    area: () => log,
  }
  return log
}

/** Collects what the chain counts between two stats. */
export class StatsCounter implements ChainCounters {
  readonly transactions = {
    landed: { inc: () => void this.#transactions.landed++ },
    failed: { inc: () => void this.#transactions.failed++ },
    rejected: { inc: () => void this.#transactions.rejected++ },
  }
  readonly snapshotSeconds = { observe: (value: number) => void this.#snapshotSeconds.push(value) }
  #transactions: TransactionCounts = { landed: 0, failed: 0, rejected: 0 }
  #snapshotSeconds: number[] = []

  /** Everything since the last call. */
  take(): Pick<DevnodeStats, 'transactions' | 'snapshotSeconds'> {
    const transactions = this.#transactions
    const snapshotSeconds = this.#snapshotSeconds
    this.#transactions = { landed: 0, failed: 0, rejected: 0 }
    this.#snapshotSeconds = []
    return { transactions, snapshotSeconds }
  }
}
