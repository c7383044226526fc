// Hostile SQL on the embedded index: refused or survived, while rows come in and others ask.
import { readdirSync, readFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ask, QueryStage, rowsOf } from '../testkit/query-stage.ts'
import { transactionRows } from '../testkit/row-samples.ts'
import { bombs, refused } from '../testkit/sandbox-corpus.ts'
import { until } from '../testkit/until.ts'

const deadlineMs = 600
/** A query ends a second after its deadline; a busy machine may double that. */
const boundMs = 2 * (deadlineMs + 1000)
const rssBytesMax = 1_000_000_000

let stage: QueryStage
let slot = 0

beforeAll(async () => {
  stage = await QueryStage.open()
  await writeSlots(100)
})

afterAll(() => stage.close())

async function writeSlots(slots: number): Promise<void> {
  await stage.sink.write([transactionRows({ slot: slot + 1, slots, perSlot: 200 })], {})
  slot += slots
}

describe('the sandbox of the embedded index', () => {
  test('refuses what does not only read our tables', async () => {
    for (const sql of refused) {
      const { text, error } = await ask(stage.engine, sql, { limits: { timeMs: 30_000 } })
      expect(text, sql).toBe('')
      expect(error, sql).not.toBe(null)
      // By the gate, that is: not by a deadline, not by a death, and without a word on files that
      // the query does not name itself.
      expect([36, 42, 46, 47, 48, 60, 62, 164], `${sql}: ${error?.message}`).toContain(error?.code)
      for (const path of ['.duckdb', '/tmp/sluice', '/proc/self'].filter(
        (one) => !sql.includes(one),
      ))
        expect(error?.message, sql).not.toContain(path)
    }
    expect(await rowsOf(stage.engine, 'SELECT 1')).toEqual([[1]])
  })

  test('survives queries that exhaust time and memory, without effect on other customers', async () => {
    let isDone = false
    let rssPeak = 0
    let written = 0
    let pids: readonly number[] = []
    const finding = setInterval(() => {
      pids = queryProcesses()
    }, 250)
    const sampling = setInterval(() => {
      rssPeak = Math.max(rssPeak, ...pids.map(rssOf))
    }, 10)
    const writing = (async () => {
      while (!isDone) {
        await writeSlots(1)
        written += 1
        await new Promise((resolve) => setTimeout(resolve, 50))
      }
    })()
    const others: number[] = []
    const failures: string[] = []
    const asking = (async () => {
      while (!isDone) {
        const beganMs = performance.now()
        const sql = 'SELECT count() FROM transactions WHERE fee > 5000'
        const asking = { subscription: 'sub_good', limits: { timeMs: 60_000 } }
        const { text, error } = await ask(stage.engine, sql, asking)
        if (error !== null || !/^\["[1-9]\d*"\]\n$/.test(text)) failures.push(`${error?.message}`)
        others.push(performance.now() - beganMs)
        await new Promise((resolve) => setTimeout(resolve, 20))
      }
    })()
    const slowest: [number, string][] = []
    const late: string[] = []
    // Two at a time, as a customer may; each its own customer, so that none has to wait.
    const left = bombs.map((sql, at) => ({ sql, at }))
    const throwing = async () => {
      for (let bomb = left.shift(); bomb !== undefined; bomb = left.shift()) {
        const asking = { subscription: `sub_bad_${bomb.at}`, limits: { timeMs: deadlineMs } }
        let beganMs = performance.now()
        let { error } = await ask(stage.engine, bomb.sql, asking)
        // Killed processes are being replaced: the bomb has not run yet.
        while (error?.code === 202) {
          beganMs = performance.now()
          error = (await ask(stage.engine, bomb.sql, asking)).error
        }
        const tookMs = performance.now() - beganMs
        slowest.push([tookMs, `${error?.name} ${bomb.sql.slice(0, 80)}`])
        if (tookMs > boundMs) late.push(`${Math.round(tookMs)} ms: ${bomb.sql.slice(0, 80)}`)
      }
    }
    await Promise.all([throwing(), throwing()])
    isDone = true
    await Promise.all([writing, asking])
    clearInterval(sampling)
    clearInterval(finding)
    if (process.env.SLUICE_TEST_VERBOSE) report({ slowest, others, written, rssPeak })
    expect(late).toEqual([])
    expect(failures).toEqual([])
    expect(rssPeak).toBeGreaterThan(0)
    expect(rssPeak).toBeLessThan(rssBytesMax)
    expect(written).toBeGreaterThan(bombs.length / 2)
    expect(others.length).toBeGreaterThan(2)
    // Nothing is lost. The newest rows may follow a moment later: a query that a busy writer keeps
    // waiting reads the snapshot before.
    const count = () => rowsOf(stage.engine, 'SELECT count() FROM transactions')
    await until(async () => String((await count())[0]) === String(slot * 200), 'all rows')
    expect(await count()).toEqual([[String(slot * 200)]])
  })

  test('makes a customer wait whose queries had to be killed', async () => {
    const asking = { subscription: 'sub_worse', limits: { timeMs: 300 } }
    const bomb = "SELECT levenshtein(repeat('a', 100000), repeat('b', 100000))"
    const first = await ask(stage.engine, bomb, asking)
    expect([159, 241]).toContain(first.error?.code)
    const second = await ask(stage.engine, 'SELECT 1', asking)
    expect(second.error).toMatchObject({ code: 201, name: 'QUOTA_EXCEEDED' })
    expect(await rowsOf(stage.engine, 'SELECT 1', { subscription: 'sub_good' })).toEqual([[1]])
  })

  test('gives its processes nothing: no environment, no privileges, no files of ours', async () => {
    await rowsOf(stage.engine, 'SELECT 1')
    const isRoot = process.getuid?.() === 0
    // One that is just being made is still ours, and has seen no query.
    await until(() => queryProcesses().some((pid) => niceOf(pid) === 10), 'one is ready')
    for (const pid of queryProcesses().filter((one) => niceOf(one) === 10)) {
      const status = readFileSync(`/proc/${pid}/status`, 'utf8')
      if (isRoot) {
        // A user and group of their own: not `nobody`, which other processes may be as well.
        const own = String(0x736c_7569)
        expect(/^Uid:\s+(\d+)\s+(\d+)/m.exec(status)?.slice(1)).toEqual([own, own])
        expect(/^Gid:\s+(\d+)\s+(\d+)/m.exec(status)?.slice(1)).toEqual([own, own])
        expect(/^Groups:\s*$/m.test(status)).toBe(true)
        expect(/^CapEff:\s+0+$/m.test(status)).toBe(true)
        expect(readFileSync(`/proc/${pid}/environ`, 'utf8').replaceAll('\0', '')).not.toMatch(
          /HOME/,
        )
      }
      const limits = readFileSync(`/proc/${pid}/limits`, 'utf8')
      expect(limits).toMatch(/Max data size\s+8999\d{5}\s/)
    }
  })
})

function queryProcesses(): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => {
      try {
        const parent = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]!.split(' ')[1]
        return (
          Number(parent) === process.pid &&
          readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('index-query')
        )
      } catch {
        return false
      }
    })
}

function niceOf(pid: number): number {
  try {
    return Number(readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]!.split(' ')[16])
  } catch {
    return 0
  }
}

function rssOf(pid: number): number {
  try {
    return Number(readFileSync(`/proc/${pid}/statm`, 'utf8').split(' ')[1]) * 4096
  } catch {
    return 0
  }
}

function report(seen: {
  slowest: [number, string][]
  others: number[]
  written: number
  rssPeak: number
}): void {
  const { slowest, others, written, rssPeak } = seen
  for (const [ms, what] of slowest.sort((a, b) => b[0] - a[0])) console.log(Math.round(ms), what)
  const sorted = others.sort((a, b) => a - b)
  console.log(
    `rss peak ${Math.round(rssPeak / 1e6)} MB, writes ${written}, others ${sorted.length}: ` +
      `p50 ${Math.round(sorted[sorted.length >> 1]!)} ms, max ${Math.round(sorted.at(-1)!)} ms`,
  )
}
