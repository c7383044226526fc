// Rows per second that a client takes in, and how long it waits for the first byte (the latency
// figures): by format through our endpoint on DuckDB, and as JSONEachRow on ClickHouse, against
// what DuckDB itself can write without a reader. Processor time is that of the endpoint and its
// query processes, without a ClickHouse server and the client, or of the engine alone.
// Thread: main of the bench process, which is the client; endpoint and engines are other processes.
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { DuckDBInstance } from '@duckdb/node-api'
import { request } from 'undici'
import { parseSnapshot, snapshotName } from '../../src/products/indexer/duckdb/store-files.ts'
import { type BenchProcess, startProcess } from '../../test/testkit/process.ts'
import type { Bench, Contender, Measurement } from '../lib/bench.ts'
import { LatencyHistogram } from '../lib/histogram.ts'
import { clickhouseStage, duckdbStage, missingClickhouse, type Shared } from '../lib/index-stage.ts'
import { processorSeconds } from '../lib/processor-time.ts'
import type { EndpointPlace, OpenEndpoint } from './clients/index-endpoint.ts'

const rows = 300_000
const columns = 'slot, idx, signature, fee_payer, success, fee, compute_units'
const sql = `SELECT ${columns} FROM transactions LIMIT ${rows} FORMAT`
/** With the heads before their rows; binary formats have no lines to count. */
const formats = {
  JSONEachRow: 0,
  CSV: 0,
  TabSeparatedWithNames: 1,
  Native: null,
  ArrowStream: null,
}
type FormatName = keyof typeof formats
/** As many rows as the engine makes one text of, which is as many as it works on at once. */
const rowsPerText = 2_048

const engineName = 'to_json in DuckDB, no client'
const nameOf = (engine: EndpointPlace['engine'], format: FormatName) =>
  `${format}, our endpoint on ${engine}`

export const bench: Bench = {
  name: 'index-stream',
  question: 'How many rows per second does a client get, by format?',
  cores: 2,
  baseline: limit(),
  candidates: [
    ...(Object.keys(formats) as FormatName[]).map((format) =>
      through('duckdb', duckdbStage, format),
    ),
    { ...through('clickhouse', clickhouseStage, 'JSONEachRow'), missing: missingClickhouse },
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
  verify: ({ evidence }) =>
    evidence?.wrong === 0 ? undefined : `${String(evidence?.wrong)} rows too few or too many`,
}

/** DuckDB in this process: to_json and string_agg over the same files, and no client. */
function limit(): Contender {
  let instance: DuckDBInstance | undefined
  let source = ''
  return {
    name: engineName,
    async prepare() {
      const { place } = await duckdbStage.take()
      const snapshot = parseSnapshot(await readFile(join(place, snapshotName), 'utf8'))
      instance = await DuckDBInstance.create(':memory:')
      const connection = await instance.connect()
      const files = snapshot.files.filter((file) => file.tables.includes('transactions'))
      for (const [at, file] of files.entries())
        await connection.run(`ATTACH '${join(place, file.name)}' AS f${at} (READ_ONLY)`)
      source = files.map((_, at) => `SELECT * FROM f${at}.transactions`).join(' UNION ALL ')
    },
    async run({ seconds }): Promise<Measurement> {
      const connection = await instance!.connect()
      const text = `SELECT count(*), sum(length(part)) FROM (
        SELECT string_agg(CAST(to_json(t) AS VARCHAR), chr(10)) AS part, count(*) AS n FROM (
          SELECT ${columns}, row_number() OVER () // ${rowsPerText} AS block FROM (
            SELECT ${columns} FROM (${source}) LIMIT ${rows})) AS t GROUP BY block)`
      const usedSeconds = () => {
        const { user, system } = process.cpuUsage()
        return (user + system) / 1e6
      }
      return repeat(seconds, usedSeconds, async () => {
        const answer = await connection.runAndReadAll(text)
        const [[blocks]] = answer.getRowsJson() as [[string]]
        return Number(blocks) === Math.floor(rows / rowsPerText) + 1 ? rows : 0
      })
    },
    async close() {
      instance?.closeSync()
      await duckdbStage.release()
    },
  }
}

function through(engine: EndpointPlace['engine'], shared: Shared, format: FormatName): Contender {
  let endpoint: BenchProcess | undefined
  let opened: OpenEndpoint | undefined
  return {
    name: nameOf(engine, format),
    async prepare() {
      const { place } = await shared.take()
      endpoint = startProcess(new URL('./clients/index-endpoint.js', import.meta.url))
      const where: EndpointPlace = { engine, place }
      opened = await endpoint.call<OpenEndpoint>('open', where)
    },
    run: ({ seconds }) =>
      repeat(
        seconds,
        () => processorSeconds(endpoint!.pid),
        async (first) => {
          const askedMs = performance.now()
          const answer = await request(opened!.url, {
            method: 'POST',
            headers: opened!.headers,
            body: `${sql} ${format}`,
          })
          const heads = formats[format]
          let lines = 0
          let bytes = 0
          for await (const chunk of answer.body as AsyncIterable<Buffer>) {
            if (bytes === 0) first.recordNs((performance.now() - askedMs) * 1e6)
            bytes += chunk.length
            if (heads === null) continue
            for (let at = chunk.indexOf(10); at >= 0; at = chunk.indexOf(10, at + 1)) lines += 1
          }
          if (heads !== null) return lines - heads
          return answer.statusCode === 200 && bytes > rows * bytesPerRowMin ? rows : 0
        },
      ),
    async close() {
      await endpoint?.stop()
      await shared.release()
    },
  }
}

/** Signature and payer alone are longer. */
const bytesPerRowMin = 100

async function repeat(
  seconds: number,
  usedSeconds: () => number,
  once: (first: LatencyHistogram) => Promise<number>,
): Promise<Measurement> {
  const first = new LatencyHistogram()
  const beganMs = performance.now()
  const usedBefore = usedSeconds()
  let taken = 0
  let times = 0
  do {
    taken += await once(first)
    times += 1
  } while (performance.now() - beganMs < seconds * 1000)
  return {
    opsPerSecond: (taken * 1000) / (performance.now() - beganMs),
    cpuUsPerOp: ((usedSeconds() - usedBefore) * 1e6) / taken,
    ...(first.total > 0 && { latencyUs: first.summary() }),
    evidence: { wrong: taken - times * rows },
  }
}
