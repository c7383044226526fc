// The way into the index with a real writer process on DuckDB: an event log and a hub behind the
// gateway's socket, and rows read back from the files as another engine sees them.
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { systemClock } from '../../src/base/clock.ts'
import { silentLog } from '../../src/base/telemetry/log.ts'
import { Meters } from '../../src/base/telemetry/meters.ts'
import { slotStatus } from '../../src/chain/solana/updates.ts'
import { requestSnapshot, socketPath } from '../../src/indexer/duckdb/snapshot-socket.ts'
import { IngestPipeline } from '../../src/indexer/ingest.ts'
import { declareIngestMeters } from '../../src/indexer/meters.ts'
import { type TableName, tables } from '../../src/indexer/tables.ts'
import { type IndexFeeds, openIndexFeeds } from '../../src/products/indexer/feeds.ts'
import { Heads, type SolanaHub } from '../../src/streams/geyser/hub.ts'
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
  ingest!: IngestPipeline
  feeds!: IndexFeeds
  /** The newest confirmed slot of the hub. */
  #confirmed: number | null = null
  readonly #reserve = handOutSeqs(0)

  /** A run: a new log, as after a restart of the server, over the same index. */
  async start(hub: SolanaHub | null): Promise<void> {
    this.meters = new Meters()
    const { framesMax, folder } = this
    const shared = { clock: systemClock, log: silentLog }
    this.log = new EventLog({ reserve: this.#reserve, clock: systemClock, framesMax })
    this.#confirmed = null
    hub?.listen((_, update) => {
      const isConfirmed = update.kind === 'slot' && update.status === slotStatus.confirmed
      if (isConfirmed) this.#confirmed = update.slot
    })
    const deps = { events: this.log, version: '0', ...shared }
    mkdirSync(folder, { recursive: true })
    this.feeds = await openIndexFeeds(join(folder, 'feeds.sock'), deps)
    if (hub !== null) this.feeds.serve(chainOf(hub))
    this.ingest = await IngestPipeline.start(
      {
        ...{ engine: 'duckdb', url: '', retentionDays: 30, retentionBytes: 20_000_000_000 },
        clickhouse: { insertMs: 2_000, insertRows: 100_000 },
      },
      {
        feeds: this.feeds,
        folder: join(folder, 'index'),
        holder: 'test',
        meters: declareIngestMeters(this.meters),
        ...shared,
      },
    )
  }

  async stop(): Promise<void> {
    await this.ingest?.stop()
    await this.feeds?.stop()
  }

  async dispose(): Promise<void> {
    await this.stop()
    rmSync(this.folder, { recursive: true, force: true })
  }

  /** Waits until everything published by now is durable, also while a chain goes on. */
  settled(): Promise<void> {
    const asked = { ...this.feeds.positions(), slot: this.#confirmed }
    const isThere = () => {
      // A chain that began anew goes on from a lower slot: then all that there is must be durable.
      const isOn = asked.slot !== null && this.#confirmed !== null && this.#confirmed > asked.slot
      const { events, tips, usage, slot } = isOn
        ? asked
        : { ...this.feeds.positions(), slot: this.#confirmed }
      const at = this.ingest.cursors()
      const last = (feed: string) =>
        Object.entries(at).flatMap(([name, seq]) => (name.startsWith(`${feed} `) ? [seq] : []))
      const fact = (feed: string) => Math.max(0, ...last(feed).map(Number))
      const isAt = (found = 0, wanted: number) => (isOn ? found >= wanted : found === wanted)
      const isRead = [
        this.log.frames === 0 || isAt(at.events?.seq, events),
        ...[tips === 0 || isAt(fact('tips'), tips), usage === 0 || isAt(fact('usage'), usage)],
        slot === null || isAt(this.ingest.freshness().slot ?? -1, slot),
      ]
      return isRead.every(Boolean) && (isOn || this.ingest.lagMs() === 0)
    }
    return until(isThere, 'everything is durable')
  }

  /** Every row of a table that is durable now. */
  async rows(table: TableName): Promise<ReadRow[]> {
    const snapshot = await requestSnapshot(socketPath(join(this.folder, 'index')), hangMs)
    if (snapshot === null) throw new Error('the writer does not answer')
    const names = Object.keys(tables[table].columns)
    const rows = await readRows(join(this.folder, 'index'), table, snapshot)
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

/** A chain as a gateway has it, of a hub alone. */
export function chainOf(hub: SolanaHub) {
  const heads = new Heads(hub)
  return { hub, heads, isUp: () => true, watch: () => () => {}, solanaVersion: () => '' }
}
