// Rows per second that a client takes in, and how long it waits for the first byte (the latency
// figures): by format through our endpoint on DuckDB, and as JSONEachRow on ClickHouse, against
// what DuckDB itself can write without a reader. Processor time is that of the endpoint and its
// query processes, without a ClickHouse server and the client, or of the engine alone; how busy the
// endpoint's process itself was is in the evidence.
// Thread: main of the bench process, which is the client; endpoint and engines are other processes.

import { join } from 'node:path'
import { DuckDBInstance } from '@duckdb/node-api'
import { request } from 'undici'
import { LatestSnapshot } from '../../src/indexer/duckdb/snapshot-socket.ts'
import { Latencies } from '../../src/loadtest/latencies.ts'
import { type BenchProcess, startProcess } from '../../test/testkit/process.ts'
import {
  type Bench,
  type Contender,
  latencyUsOf,
  type Measurement,
  type RoundContext,
} from '../lib/bench.ts'
import { clickhouseStage, duckdbStage, missingClickhouse } from '../lib/index-stage.ts'
import { ownProcessorSeconds, processorSeconds, usedSeconds } from '../lib/processor-time.ts'
import { Shared } from '../lib/shared.ts'
import type { EndpointPlace, OpenEndpoint } from './clients/index-endpoint.ts'

const rowsOf = ({ smoke }: RoundContext) => (smoke === true ? 10_000 : 300_000)
const columns = 'slot, idx, signature, fee_payer, success, fee, compute_units'
/** With the heads before their rows; binary formats have no lines to count. */
const formats = {
  JSONEachRow: 0,
  CSV: 0,
  TabSeparatedWithNames: 1,
  Native: null,
  ArrowStream: null,
}
type FormatName = keyof typeof formats
const formatNames = Object.keys(formats) as FormatName[]
/** As many rows as the engine makes one text of, which is as many as it works on at once. */
const rowsPerText = 2_048
const snapshotMsMax = 30_000

const engineName = 'to_json in DuckDB, no client'
const nameOf = (engine: EndpointPlace['engine'], format: FormatName) =>
  `${format}, our endpoint on ${engine}`

export const bench: Bench = {
  name: 'index-stream',
  question: 'How many rows per second does a client get, by format?',
  cores: 2,
  baseline: limit(),
  candidates: [
    ...formatNames.map((format) => through('duckdb', format)),
    { ...through('clickhouse', 'JSONEachRow'), missing: missingClickhouse },
  ],
  goals: [
    {
      contender: nameOf('duckdb', 'JSONEachRow'),
      to: engineName,
      figure: 'opsPerSecond',
      atLeast: 0.7,
    },
    { contender: nameOf('duckdb', 'JSONEachRow'), figure: 'p50', atMost: 50_000 },
  ],
  // A ClickHouse server takes too long to start.
  smoke: [engineName, ...formatNames.map((format) => nameOf('duckdb', format))],
  verify: ({ evidence }) =>
    evidence?.wrong === 0 ? undefined : `${String(evidence?.wrong)} rows too few or too many`,
}

/** DuckDB in this process: to_json and string_agg over the same files, and no client. */
function limit(): Contender {
  let instance: DuckDBInstance | undefined
  let source = ''
  return {
    name: engineName,
    async prepare(context) {
      const { place } = await duckdbStage.get(context)
      const snapshot = await new LatestSnapshot(place).get(snapshotMsMax)
      instance = await DuckDBInstance.create(':memory:')
      const connection = await instance.connect()
      const files = snapshot.files.filter((file) => file.tables.includes('transactions'))
      for (const [at, file] of files.entries())
        await connection.run(`ATTACH '${join(place, file.name)}' AS f${at} (READ_ONLY)`)
      source = files.map((_, at) => `SELECT * FROM f${at}.transactions`).join(' UNION ALL ')
    },
    async run(context): Promise<Measurement> {
      const rows = rowsOf(context)
      const connection = await instance!.connect()
      const text = `SELECT count(*), sum(length(part)) FROM (
        SELECT string_agg(CAST(to_json(t) AS VARCHAR), chr(10)) AS part, count(*) AS n FROM (
          SELECT ${columns}, row_number() OVER () // ${rowsPerText} AS block FROM (
            SELECT ${columns} FROM (${source}) LIMIT ${rows})) AS t GROUP BY block)`
      return repeat(context, usedSeconds, async () => {
        const answer = await connection.runAndReadAll(text)
        const [[blocks]] = answer.getRowsJson() as [[string]]
        return Number(blocks) === Math.floor(rows / rowsPerText) + 1 ? rows : 0
      })
    },
    async close() {
      instance?.closeSync()
      await stopAll()
    },
  }
}

interface Endpoint {
  readonly child: BenchProcess
  readonly opened: OpenEndpoint
  stop(): Promise<void>
}

/** One for all formats of an engine. */
const endpoints: Readonly<Record<EndpointPlace['engine'], Shared<Endpoint>>> = {
  duckdb: new Shared((context) => open('duckdb', context)),
  clickhouse: new Shared((context) => open('clickhouse', context)),
}
const stages = { duckdb: duckdbStage, clickhouse: clickhouseStage }

async function open(engine: EndpointPlace['engine'], context: RoundContext): Promise<Endpoint> {
  const { place } = await stages[engine].get(context)
  const child = startProcess(new URL('./clients/index-endpoint.js', import.meta.url))
  const where: EndpointPlace = { engine, place }
  return {
    child,
    opened: await child.call<OpenEndpoint>('open', where),
    stop: () => child.stop(),
  }
}

async function stopAll(): Promise<void> {
  await Promise.all(Object.values(endpoints).map((endpoint) => endpoint.stop()))
  await Promise.all(Object.values(stages).map((stage) => stage.stop()))
}

function through(engine: EndpointPlace['engine'], format: FormatName): Contender {
  let endpoint: Endpoint | undefined
  return {
    name: nameOf(engine, format),
    async prepare(context) {
      endpoint = await endpoints[engine].get(context)
    },
    run: (context) =>
      repeat(
        context,
        () => processorSeconds(endpoint!.child.pid),
        async (first) => {
          const rows = rowsOf(context)
          const askedMs = performance.now()
          const { url, headers } = endpoint!.opened
          const answer = await request(url, {
            method: 'POST',
            headers,
            body: `SELECT ${columns} FROM transactions LIMIT ${rows} FORMAT ${format}`,
          })
          const heads = formats[format]
          let lines = 0
          let bytes = 0
          for await (const chunk of answer.body as AsyncIterable<Buffer>) {
            if (bytes === 0) first.record(performance.now() - askedMs)
            bytes += chunk.length
            if (heads === null) continue
            for (let at = chunk.indexOf(10); at >= 0; at = chunk.indexOf(10, at + 1)) lines += 1
          }
          if (heads !== null) return lines - heads
          return answer.statusCode === 200 && bytes > rows * bytesPerRowMin ? rows : 0
        },
        () => ownProcessorSeconds(endpoint!.child.pid),
      ),
    close: stopAll,
  }
}

/** Signature and payer alone are longer. */
const bytesPerRowMin = 100

async function repeat(
  context: RoundContext,
  used: () => number,
  once: (first: Latencies) => Promise<number>,
  own: () => number = () => 0,
): Promise<Measurement> {
  const first = new Latencies()
  const beganMs = performance.now()
  const usedBefore = used()
  const ownBefore = own()
  let taken = 0
  let times = 0
  do {
    taken += await once(first)
    times += 1
  } while (performance.now() - beganMs < context.seconds * 1000)
  const seconds = (performance.now() - beganMs) / 1000
  return {
    opsPerSecond: taken / seconds,
    cpuUsPerOp: ((used() - usedBefore) * 1e6) / taken,
    ...(first.count > 0 && { latencyUs: latencyUsOf(first) }),
    evidence: {
      wrong: taken - times * rowsOf(context),
      endpointCores: (own() - ownBefore) / seconds,
    },
  }
}
