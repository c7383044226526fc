// `sluice bench load` against endpoints with known behaviour, in processes of their own.
import { type ChildProcess, fork } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, test } from 'vitest'
import { figureIn, type Result } from '../../src/loadtest/result.ts'
import { runCommand } from '../testkit/command.ts'
import { CpuWait } from '../testkit/cpu-wait.ts'
import { isSlice, spanMs } from '../testkit/slice.ts'

const out = mkdtempSync(join(tmpdir(), 'sluice-long-load-'))
const children: ChildProcess[] = []
afterEach(() => {
  for (const child of children.splice(0)) child.kill()
  rmSync(out, { recursive: true, force: true })
})

interface Stall {
  readonly startMs: number
  readonly endMs: number
}

async function startEndpoint(...words: string[]) {
  const child = fork(join(import.meta.dirname, '../testkit/slow-endpoint.mjs'), words)
  children.push(child)
  const stalls: Stall[] = []
  const port = await new Promise<number>((resolve) => {
    child.on('message', (message: { port: number } | Stall) => {
      if ('port' in message) resolve(message.port)
      else stalls.push(message)
    })
  })
  return { child, stalls, to: ['--to', `rpc=http://127.0.0.1:${port}`] }
}

async function load(...words: string[]): Promise<Result> {
  const ran = await runCommand(['bench', 'load', ...words, '--out', out, '--output', 'json'])
  expect(ran.stderr).toBe('')
  return ran.json() as unknown as Result
}

/** What calls at a constant rate wait at the 99th percentile, by the endpoint's own stalls. */
function expectedP99(stalls: readonly Stall[], seconds: number): number {
  const part = stalls.reduce((sum, { startMs, endMs }) => sum + endMs - startMs, 0) / seconds / 1000
  const longestMs = Math.max(...stalls.map(({ startMs, endMs }) => endMs - startMs))
  // Waits are even between 0 and the length of the stall.
  return longestMs * (1 - 0.01 / part)
}

describe('sluice bench load', () => {
  test('reports stalls of 1 s in every 10 at 1,000/s as p99 = 0.9 s, unlike a closed loop', async () => {
    const { child, stalls, to } = await startEndpoint('stall', '10000', '1000')
    const seconds = spanMs(60_000, 10_000) / 1000
    child.send('begin')
    // Few connections: a closed loop sees a stall once on each of them.
    const words = ['--rate', '1000', '--connections', '16', '--warm-up', '0s']
    const wait = new CpuWait()
    const result = await load(...to, ...words, '--for', `${seconds}s`)
    const waitedMs = wait.stop()
    const p99 = figureIn(result, 'p99')?.value ?? 0
    const expected = expectedP99(stalls, seconds)
    expect(figureIn(result, 'calls')?.value).toBe(1000 * seconds)
    expect(expected).toBeGreaterThan(850)
    // On a busy machine calls are also late because generator or endpoint waited for a core.
    const tolerance = Math.min(0.25, 0.05 + waitedMs / expected)
    expect(Math.abs(p99 / expected - 1)).toBeLessThan(tolerance)
    expect(figureIn(result, 'service-p99')?.value).toBeLessThan(10 + waitedMs)
    expect(figureIn(result, 'service-p90')?.value).toBeLessThan(expected / 2)
  })

  test('finds the limit of an endpoint within 10 %', async () => {
    const limit = 400
    const { to } = await startEndpoint('limit', String(limit))
    // The median: a pause of a busy machine moves the high percentiles.
    const length = isSlice ? '1500ms' : '5s'
    const words = ['--find', 'p50<50ms', '--rate', '200', '--connections', '512']
    const result = await load(...to, ...words, '--for', length, '--warm-up', '0s')
    const knee = figureIn(result, 'knee')?.value ?? 0
    if (!result.fit && knee < limit * 0.9) {
      // The search ended where this machine is too busy, and says so.
      expect(result.unfit.join()).toMatch(/the search ended early/)
      return
    }
    expect(Math.abs(knee / limit - 1)).toBeLessThan(0.1)
  })
})
