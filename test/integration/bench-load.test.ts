// `sluice bench load` against real sockets: results, bad endpoints, recordings.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test, vi } from 'vitest'
import { figureIn, type Result } from '../../src/loadtest/result.ts'
import { dispatch } from '../../src/operator/commands/dispatch.ts'
import { commandPath } from '../testkit/command.ts'
import { answerOk, type LoadTarget, startLoadTarget } from '../testkit/load-target.ts'
import { until } from '../testkit/until.ts'

const folder = mkdtempSync(join(tmpdir(), 'sluice-bench-load-'))
const started: LoadTarget[] = []
afterAll(async () => {
  for (const target of started) await target.stop()
  rmSync(folder, { recursive: true })
})

async function target(...given: Parameters<typeof startLoadTarget>): Promise<LoadTarget> {
  const one = await startLoadTarget(...given)
  started.push(one)
  return one
}

interface Ran {
  readonly code: number
  readonly text: string
  result(): Result & { path: string; failed: string[] }
}

/** Short runs without a warm-up; later words win. */
async function load(...words: string[]): Promise<Ran> {
  const out = mkdtempSync(join(folder, 'out-'))
  const common = ['--warm-up', '0s', '--for', '500ms', '--out', out, '--output', 'json']
  const given = common.filter((_, index) => !words.includes(common[index & ~1]!))
  return command('bench', 'load', ...given, ...words)
}

async function command(...words: string[]): Promise<Ran> {
  let text = ''
  const taps = [process.stdout, process.stderr].map((stream) =>
    vi.spyOn(stream, 'write').mockImplementation((chunk) => {
      text += String(chunk)
      return true
    }),
  )
  try {
    const code = await dispatch(words)
    return { code, text, result: () => JSON.parse(text) }
  } finally {
    for (const tap of taps) tap.mockRestore()
  }
}

describe('sluice bench load', () => {
  test('keeps figures, report, plots and histograms, and never a token', async () => {
    const { url } = await target()
    const prom = join(folder, 'load.prom')
    const ran = await load('--to', `rpc=${url},token=slu_secret`, '--rate', '200', '--prom', prom)
    const result = ran.result()
    expect(figureIn(result, 'calls')?.value).toBe(100)
    expect(figureIn(result, 'errors')?.value).toBe(0)
    expect(figureIn(result, 'p99')?.value).toBeGreaterThan(0)
    expect(result.partial).toBe(null)
    // Exit 0 exactly when the machine was idle enough to measure.
    expect(ran.code).toBe(result.fit ? 0 : 1)
    const stem = result.path.replace(/\.json$/, '')
    const names = ['.json', '.html', '.svg', '-latency.hgrm', '-service.hgrm']
    const texts = names.map((name) => readFileSync(`${stem}${name}`, 'utf8'))
    expect(texts[3]).toMatch(/Value\s+Percentile\s+TotalCount/)
    expect(readFileSync(prom, 'utf8')).toContain('sluice_bench_load_calls 100')
    expect([...texts, ran.text].join('')).not.toContain('slu_secret')
  })

  test('fails by --require when a condition does not hold', async () => {
    const { url } = await target((request, response, body) => {
      if (body.includes('bad')) response.writeHead(500, { 'content-length': 0 }).end()
      else answerOk(request, response, body)
    })
    const calls = join(folder, 'calls.jsonl')
    writeFileSync(calls, '{"method":"good"}\n{"method":"bad"}\n')
    const words = ['--to', `rpc=${url}`, '--rate', '100', '--call', calls]
    const ran = await load(...words, '--require', 'errors<1%,achieved>1')
    expect(ran.code).toBe(1)
    expect(ran.result().failed).toEqual(['errors<1% does not hold'])
    expect(ran.result().detail.errors).toEqual({ 'HTTP 500': 25 })
  })

  test('replays a recording with the same calls', async () => {
    const { url, bodies } = await target()
    const calls = join(folder, 'three.jsonl')
    writeFileSync(calls, ['a', 'b', 'c'].map((method) => JSON.stringify({ method })).join('\n'))
    const file = join(folder, 'recorded.jsonl')
    const words = ['--to', `rpc=${url}`, '--connections', '1']
    const plan = ['--rate', '100', '--arrivals', 'poisson', '--seed', '5', '--call', calls]
    await load(...words, ...plan, '--record', file)
    const before = bodies.splice(0)
    const again = await command(
      ...['bench', 'load', ...words, '--replay', file, '--speed', '10'],
      ...['--out', folder, '--output', 'json'],
    )
    // The first request of a run is the one outside the count.
    expect(bodies.slice(1)).toEqual(before.slice(1))
    expect(before.length).toBeGreaterThan(20)
    expect(figureIn(again.result(), 'calls')?.value).toBe(before.length - 1)
  })

  test('says in one sentence why it cannot start', async () => {
    const { url } = await target((_, response) => {
      response.writeHead(401, { 'content-length': 0 }).end()
    })
    const gone = await startLoadTarget()
    await gone.stop()
    const problem = async (to: string) => {
      const { code, text } = await load('--to', to, '--rate', '10')
      expect(code).toBe(1)
      return JSON.parse(text).error.message
    }
    expect(await problem(`rpc=${url},token=x`)).toMatch(/refused the token \(HTTP 401\)$/)
    expect(await problem(`rpc=${url}`)).toMatch(/refused the call without a token \(HTTP 401\)$/)
    expect(await problem(`rpc=${gone.url}`)).toMatch(/cannot be reached: ECONNREFUSED$/)
    expect(await problem(`grpc=${gone.url}`)).toMatch(/cannot be reached: ECONNREFUSED$/)
    expect(await problem(`rpc=http://no-such-host.invalid`)).toMatch(/has no address$/)
    expect(await problem(`websocket=${url.replace('http', 'ws')}`)).toMatch(/\(HTTP 401\)$/)
  })

  test('keeps and marks what it measured when the endpoint goes away half-way', async () => {
    const dying = await startLoadTarget()
    const running = load('--to', `rpc=${dying.url}`, '--rate', '100', '--for', '60s')
    await until(() => dying.bodies.length > 20, 'calls arrive')
    await dying.stop()
    const ran = await running
    expect(ran.code).toBe(1)
    const result = ran.result()
    expect(result.partial).toMatch(/closed every connection and accepts no new one/)
    expect(figureIn(result, 'calls')?.value).toBeGreaterThan(19)
    expect(JSON.parse(readFileSync(result.path, 'utf8')).partial).toBe(result.partial)
  })

  test('keeps and marks what it measured on Ctrl-C', async () => {
    const { url, bodies } = await target()
    const out = join(folder, 'interrupted')
    const words = ['bench', 'load', '--to', `rpc=${url}`, '--rate', '100', '--warm-up', '0s']
    const child = spawn(process.execPath, [commandPath, ...words, '--out', out])
    await until(() => bodies.length > 20, 'calls arrive')
    child.kill('SIGINT')
    const [code] = await once(child, 'exit')
    expect(code).toBe(1)
    const name = readdirSync(out).find((file) => file.endsWith('.json'))
    const result = JSON.parse(readFileSync(join(out, name ?? ''), 'utf8')) as Result
    expect(result.partial).toBe('stopped by SIGINT')
    expect(figureIn(result, 'calls')?.value).toBeGreaterThan(10)
  })

  test('fails with a sentence when no call was measured', async () => {
    const { url } = await target()
    const ran = await load('--to', `rpc=${url}`, '--rate', '0.1', '--warm-up', '200ms')
    expect(ran.code).toBe(1)
    expect(ran.result().unfit).toContain('no call was measured (0 samples)')
  })

  test('refuses flags that make no sense', async () => {
    const problem = async (...words: string[]) => {
      const { code, text } = await command('bench', 'load', ...words, '--output', 'json')
      expect(code).toBe(2)
      return JSON.parse(text).error.message
    }
    const to = ['--to', 'rpc=http://127.0.0.1:1']
    expect(await problem()).toMatch(/--to is missing/)
    expect(await problem(...to)).toMatch(/--rate is missing/)
    expect(await problem(...to, '--rate', 'fast')).toMatch(/--rate is calls per second/)
    expect(await problem(...to, '--rate', '5', '--for', '0s')).toMatch(/longer than 0s/)
    expect(await problem(...to, '--rate', '5', '--for', '5')).toMatch(/--for is a time/)
    expect(await problem(...to, '--replay', 'x', '--rate', '5')).toMatch(/cannot be used with/)
    expect(await problem(...to, '--replay', 'x', '--speed', '101')).toMatch(/--speed is 1 to 100/)
    expect(await problem(...to, '--rate', '5', '--require', 'p98<1ms')).toMatch(/has no figure/)
  })
})
