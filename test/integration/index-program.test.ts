// The program that answers queries, beside the endpoint: it, its query processes and its clients die
// at any time, and the next query is answered.
import { readdirSync, readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { systemClock } from '../../src/base/clock.ts'
import { initialOf } from '../../src/base/fields.ts'
import { silentLog } from '../../src/base/telemetry/log.ts'
import { Meters } from '../../src/base/telemetry/meters.ts'
import { indexerSection } from '../../src/indexer/config.ts'
import { QueryService } from '../../src/indexer/queries/service.ts'
import { Bundle } from '../testkit/bundle.ts'
import { until } from '../testkit/until.ts'

const endless =
  'SELECT count() FROM numbers(1000000000) a, numbers(1000000000) b WHERE a.number = 7'
const long = 'SELECT number, toString(number) AS text FROM numbers(100000000) FORMAT TSV'
const limits = { timeMs: 600_000, rows: 1e9, resultBytes: 1e12, memoryBytes: 512_000_000 }
const meters = new Meters()
const bundle = new Bundle({
  long: { indexer: { ...limits, queries: 4, queued: 4, queueMs: 60_000 } },
})
let folder = ''
let service: QueryService
let url = ''

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-program-'))
  service = await QueryService.start(initialOf(indexerSection.fields), {
    ...{ folder: join(folder, 'index'), socket: join(folder, 'results.sock'), holder: 'test' },
    ...{ meters, clock: systemClock, log: silentLog },
  })
  url = `http://127.0.0.1:${(await bundle.openIndexer({ queries: service.queries })).port}/`
})

afterAll(async () => {
  await bundle.dispose()
  await service.stop()
  await rm(folder, { recursive: true, force: true, maxRetries: 10 })
})

function credentials(): Record<string, string> & { id: string } {
  const { token, indexer, subscription } = bundle.issue({ products: ['indexer'], plan: 'long' })
  const pair = Buffer.from(`${indexer!.user}:${indexer!.password}`).toString('base64')
  return { authorization: `Basic ${pair}`, 'x-token': token, id: subscription.id }
}

function ask(body: string, { id: _, ...headers } = credentials()): Promise<Response> {
  return fetch(url, { method: 'POST', headers, body })
}

const one = async () => {
  const answer = await ask('SELECT 1')
  return [answer.status, await answer.text()] as const
}
const isAnswered = async () => (await one())[0] === 200

/** Process ids of the query processes of a program. */
function childrenOf(program: number): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => {
      try {
        const [, parent] = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]!.split(' ')
        return Number(parent) === program
      } catch {
        return false
      }
    })
}

async function meter(name: string): Promise<number> {
  const { body } = await meters.render('text')
  return Number(new RegExp(`^${name} (\\d+)$`, 'm').exec(String(body))?.[1])
}

const isBusy = async () => (await meter('sluice_index_query_processes_busy')) > 0

test('a query whose program is killed gets 503, and the next one is answered', async () => {
  const asked = ask(endless)
  await until(isBusy, 'the query to run')
  const program = service.pid()
  const processes = childrenOf(program)
  expect(processes.length).toBeGreaterThan(0)
  process.kill(program, 'SIGKILL')
  const answer = await asked
  expect([answer.status, answer.headers.get('retry-after')]).toEqual([503, '1'])
  expect(await answer.text()).toMatch(/^Code: 301\. DB::Exception: .*again\. \(CANNOT_CREATE_/)
  await until(isAnswered, 'the next program')
  expect(service.pid()).not.toBe(program)
  expect(await meter('sluice_index_query_program_restarts_total')).toBe(1)
  const isThere = (pid: number) => readdirSync('/proc').includes(String(pid))
  await until(() => !processes.some(isThere), 'its query processes to end')
})

test('a result that is being sent when its program is killed ends with the exception', async () => {
  const answer = await ask(long)
  expect(answer.status).toBe(200)
  const reader = answer.body!.getReader()
  await reader.read()
  process.kill(service.pid(), 'SIGKILL')
  const tag = answer.headers.get('x-clickhouse-exception-tag')
  expect(await endOf(reader)).toMatch(
    new RegExp(`__exception__\\r\\n${tag}\\nCode: 301\\..*${tag}`, 's'),
  )
  await until(isAnswered, 'the next program')
})

test('a query whose process is killed gets 503, and the program stays', async () => {
  await until(isAnswered, 'an idle program')
  await until(async () => !(await isBusy()), 'the report of that query')
  const asked = ask(endless)
  await until(isBusy, 'the query to run')
  const program = service.pid()
  for (const pid of childrenOf(program)) process.kill(pid, 'SIGKILL')
  const answer = await asked
  expect(answer.status).toBe(503)
  expect(await answer.text()).toBe(
    'Code: 301. DB::Exception: the process of the query was ended from outside; ' +
      'send the query again. (CANNOT_CREATE_CHILD_PROCESS)\n',
  )
  await until(isAnswered, 'another process')
  expect(service.pid()).toBe(program)
})

test('a client that leaves, and one that loses its credentials, free their process', async () => {
  const left = await ask(long)
  await left.body!.cancel()
  await until(async () => !(await isBusy()), 'the process to be free')
  const customer = credentials()
  const asked = await ask(long, customer)
  const reader = asked.body!.getReader()
  await reader.read()
  bundle.store.suspend(customer.id, { who: 'test' })
  bundle.directory.refresh()
  expect(await endOf(reader)).toContain('Code: 394. DB::Exception: the query was cancelled')
  await until(async () => !(await isBusy()), 'the process to be free')
})

test('a reader that waits stops its process, and not the program', async () => {
  const asked = await ask(long)
  const reader = asked.body!.getReader()
  await reader.read()
  expect(await one()).toEqual([200, '1\n'])
  await until(isBusy, 'its report')
  await reader.cancel()
  await until(async () => !(await isBusy()), 'the process to be free')
})

test('a program that hangs is killed, and its queries get 503', async () => {
  await until(isAnswered, 'an idle program')
  const program = service.pid()
  process.kill(program, 'SIGSTOP')
  expect((await ask(endless)).status).toBe(503)
  await until(isAnswered, 'the next program')
  expect(service.pid()).not.toBe(program)
})

/** The last characters that a reader gets. */
async function endOf(reader: ReadableStreamDefaultReader<Uint8Array>): Promise<string> {
  let text = ''
  for (;;) {
    const { done, value } = await reader.read()
    if (done) return text
    text = (text + Buffer.from(value).toString('latin1')).slice(-2_000)
  }
}
