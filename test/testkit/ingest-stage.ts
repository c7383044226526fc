// The way into the index with a real writer process on DuckDB: an event log, a hub, and rows read
// back from the files as another engine sees them.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { systemClock } from '../../src/base/clock.ts'
import { silentLog } from '../../src/base/telemetry/log.ts'
import { Meters } from '../../src/base/telemetry/meters.ts'
import type { SolanaUpdate } from '../../src/chain/solana/updates.ts'
import { requestSnapshot, socketPath } from '../../src/indexer/duckdb/snapshot-socket.ts'
import { IngestPipeline, type RunningIngest } from '../../src/indexer/ingest.ts'
import { declareIngestMeters } from '../../src/indexer/meters.ts'
import { type TableName, tables } from '../../src/indexer/tables.ts'
import type { Hub } from '../../src/streams/hub/hub.ts'
import { EventLog } from '../../src/streams/log/log.ts'
import { handOutSeqs } from './fake-execution.ts'
import { type ReadRow, readRows } from './index-reader.ts'
import { hangMs, until } from './until.ts'

export class IngestStage {
  readonly folder = mkdtempSync(join(tmpdir(), 'sluice-ingest-'))
  /** Frames that the log keeps; set before the start. */
  framesMax = 100_000
  log!: EventLog
  meters = new Meters()
  ingest!: RunningIngest
  readonly #reserve = handOutSeqs(0)

  /** A run: a new log, as after a restart of the server, over the same index. */
  async start(hub: Hub<SolanaUpdate> | null): Promise<void> {
    this.meters = new Meters()
    const { framesMax } = this
    this.log = new EventLog({ reserve: this.#reserve, clock: systemClock, framesMax })
    this.ingest = await IngestPipeline.start(
      {
        ...{ engine: 'duckdb', url: '', retentionDays: 30, retentionBytes: 20_000_000_000 },
        clickhouse: { insertMs: 2_000, insertRows: 100_000 },
      },
      {
        events: this.log,
        folder: this.folder,
        holder: 'test',
        meters: declareIngestMeters(this.meters),
        clock: systemClock,
        log: silentLog,
      },
    )
    if (hub !== null) this.ingest.follow(hub)
  }

  async stop(): Promise<void> {
    await this.ingest?.stop()
  }

  async dispose(): Promise<void> {
    await this.stop()
    rmSync(this.folder, { recursive: true, force: true })
  }

  /** Waits until everything published is durable. */
  settled(): Promise<void> {
    return until(() => this.ingest.lagMs() === 0, 'everything is durable')
  }

  /** Every row of a table that is durable now. */
  async rows(table: TableName): Promise<ReadRow[]> {
    const snapshot = await requestSnapshot(socketPath(this.folder), hangMs)
    if (snapshot === null) throw new Error('the writer does not answer')
    const names = Object.keys(tables[table].columns)
    const rows = await readRows(this.folder, table, snapshot)
    return rows.map((row) => Object.fromEntries(names.map((name, at) => [name, row[at]])))
  }

  /** A meter's value, its labels as they are written. */
  async meter(name: string): Promise<number> {
    const { body } = await this.meters.render('text')
    const line = body.split('\n').find((one) => one.startsWith(`${name} `))
    if (line === undefined) throw new Error(`no meter ${name}`)
    return Number(line.split(' ').at(-1))
  }

  /** Ends the writer without a word, and waits until another one serves. */
  async killWriter(): Promise<void> {
    const pid = this.ingest.pid()
    process.kill(pid, 'SIGKILL')
    const isOther = () => ![0, pid].includes(this.ingest.pid())
    await until(isOther, 'another writer')
  }
}
