// `sluice top` and `sluice status --watch` against the built server, piped and on a terminal.
import { spawn, spawnSync } from 'node:child_process'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { commandPath, runCommand } from '../testkit/command.ts'
import { openService } from '../testkit/metrics-service.ts'
import { littleTraffic, type Server, startServer } from '../testkit/server.ts'
import { until } from '../testkit/until.ts'

let server: Server
let origin: string

beforeAll(async () => {
  const off = ['websocket', 'grpc', 'tpu', 'shredstream'].map((name) => `--${name}.enabled=false`)
  server = await startServer({ flags: [...off, ...littleTraffic] })
  origin = server.url('metrics')
  await until(async () => (await blocks()).length > 3, 'four blocks')
})
afterAll(() => server.dispose())

async function blocks(): Promise<Record<string, unknown>[]> {
  return JSON.parse(await (await fetch(`${origin}/v1/blocks`)).text()).blocks
}

const callRpc = (token: string) =>
  fetch(server.url('rpc'), {
    method: 'POST',
    headers: { 'x-token': token, 'content-type': 'application/json' },
    body: '{"jsonrpc":"2.0","id":1,"method":"getVersion"}',
  })

describe('piped', () => {
  test('one frame as JSON: the newest block, rates and latencies of the enabled products', async () => {
    let isDone = false
    const calling = (async () => {
      // Slower than the quota of the plan.
      while (!isDone) {
        await callRpc(server.token)
        await new Promise((resolve) => setTimeout(resolve, 50))
      }
    })()
    await callRpc('wrong')
    type Products = { readonly products: Record<string, number | string>[] }
    let ran!: Awaited<ReturnType<typeof runCommand>>
    // Where this process stalled there were no calls in its second.
    await until(async () => {
      ran = await runCommand(['top', '--data', server.data, '--output', 'json'])
      return ran.code !== 0 || Number((ran.json() as never as Products).products[0]?.rate) > 0
    }, 'calls in a frame')
    isDone = true
    await calling
    expect([ran.code, ran.stderr]).toEqual([0, ''])
    const { block, products, top, status } = ran.json() as never as {
      block: { band: string; block_hash: string }
      products: Record<string, number | string>[]
      top: { account: unknown[]; storage: unknown[] }
      status: { status: string }
    }
    const { band, ...row } = block
    expect(await blocks()).toContainEqual(row)
    expect(['excellent', 'bottlenecks', 'sequential', null]).toContain(band)
    expect(status.status).toBe('healthy')
    expect(top.account).toHaveLength(5)
    expect(products.map(({ name }) => name)).toEqual(['rpc', 'metrics'])
    const [rpc] = products
    expect(rpc!.unit).toBe('calls/s')
    for (const name of ['rate', 'p50Ms', 'p99Ms', 'refused']) expect(rpc![name]).toBeGreaterThan(0)
  })

  test('one frame as text without colours', async () => {
    const ran = await runCommand(['top', '--data', server.data])
    expect([ran.code, ran.stderr]).toEqual([0, ''])
    // The newest block may be empty.
    expect(ran.stdout).toMatch(/^block \d+ +TPS \d+ +(efficiency \d|no transactions)/m)
    expect(ran.stdout).toMatch(/^rpc +(open|down|degraded).* calls\/s/m)
    expect(ran.stdout).not.toContain('\u001b')
  })

  test('a server that is not there is refused with a sentence', async () => {
    const ran = await runCommand(['top', '--url', 'http://127.0.0.1:1'])
    expect([ran.code, ran.stdout]).toEqual([1, ''])
    expect(ran.stderr).toContain('no server answers at http://127.0.0.1:1')
  })
})

/** Debian's `script` gives a command a terminal of its own. */
const hasScript = spawnSync('script', ['--version']).status === 0

describe.skipIf(!hasScript)(`on a terminal${hasScript ? '' : ' (skipped: no script)'}`, () => {
  /** Runs a command on a terminal of 70 columns; afterwards the terminal prints its settings. */
  function onTerminal(words: string, env: Record<string, string> = {}) {
    const command = `stty cols 70 rows 40; node ${commandPath} ${words}; echo "code $?"; stty -a`
    const child = spawn('script', ['-qec', command, '/dev/null'], {
      env: { PATH: process.env.PATH, TERM: 'xterm-256color', ...env },
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    let text = ''
    child.stdout.on('data', (chunk) => {
      text += chunk
    })
    const ended = new Promise((resolve) => child.on('close', resolve))
    return { text: () => text, type: (keys: string) => child.stdin.write(keys), ended }
  }
  const [enters, leaves] = ['\u001b[?1049h\u001b[?25l', '\u001b[?25h\u001b[?1049l']
  const green = '\u001b[32m'

  function expectRestored(text: string): void {
    expect(text).toContain('code 0')
    expect(text.split(enters)).toHaveLength(2)
    expect(text.indexOf(leaves)).toBeGreaterThan(text.indexOf(enters))
    expect(text).toMatch(/(?<!-)icanon/)
    expect(text).toMatch(/(?<!-)echo /)
  }

  test.each([
    ['q', 'q'],
    ['Ctrl-C', '\u0003'],
  ])('it refreshes until %s, and restores the terminal', async (_, key) => {
    const shown = onTerminal(`top --data ${server.data}`)
    const frames = () => shown.text().split('\u001b[H').length - 1
    await until(() => frames() >= 2, 'two frames')
    shown.type(key)
    await shown.ended
    expect(shown.text()).toContain(`${green}healthy`)
    expectRestored(shown.text())
  })

  test('NO_COLOR turns colours off', async () => {
    const shown = onTerminal(`top --data ${server.data}`, { NO_COLOR: '1' })
    await until(() => shown.text().includes('healthy'), 'a frame')
    shown.type('q')
    await shown.ended
    expect(shown.text()).not.toContain(green)
    expectRestored(shown.text())
  })

  test('a server that ends is reported below the last figures, and retried', async () => {
    const service = await openService()
    service.execution.run(1)
    const shown = onTerminal(`top --url ${service.origin}`)
    await until(() => shown.text().includes('block 1'), 'a frame')
    await service.running.stop()
    await until(() => shown.text().includes('retrying'), 'the report')
    shown.type('q')
    await shown.ended
    expectRestored(shown.text())
  })

  test('status --watch refreshes until q, also while no server runs', async () => {
    const shown = onTerminal(`status --watch --data ${server.data}`)
    const frames = () => shown.text().split('\u001b[H').length - 1
    await until(() => frames() >= 2, 'two frames')
    shown.type('q')
    await shown.ended
    expect(shown.text()).toMatch(/PRODUCT +STATE/)
    expectRestored(shown.text())
    const none = onTerminal('status --watch --data /nowhere')
    await until(() => none.text().includes('No server runs on /nowhere'), 'a frame')
    none.type('q')
    await none.ended
    expectRestored(none.text())
  })
})
