// The first start, as a newcomer meets it: nothing configured, an empty folder.
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { type AddressInfo, createServer, type Server as NetServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { hasOpenssl, makePair } from '../testkit/certificates.ts'
import { commandPath } from '../testkit/command.ts'
import { CpuWait } from '../testkit/cpu-wait.ts'
import { endWithProcess } from '../testkit/end-with-process.ts'
import { adjacentPorts } from '../testkit/free-port.ts'
import { runHere } from '../testkit/run-here.ts'
import {
  littleTraffic,
  onlyMetrics,
  type Server,
  sluice,
  sluiceHere,
  startServer,
} from '../testkit/server.ts'
import { root } from '../testkit/tree.ts'
import { hangMs, until } from '../testkit/until.ts'

const run = promisify(execFile)

describe('the first start', () => {
  let server: Server
  beforeAll(async () => {
    const flags = [...(await adjacentPorts()), ...littleTraffic]
    server = await startServer({ isWhole: true, flags })
  })
  afterAll(() => server.dispose())

  test('prints the credentials of demo, the token exactly once', () => {
    expect(server.token).toMatch(/^slu_[0-9A-Za-z]{38}$/)
    expect(server.indexer.user).not.toBe('')
    expect(server.indexer.password).toMatch(/^[0-9A-Za-z]{32}$/)
    expect(server.stdout().split(server.token)).toHaveLength(2)
    expect(server.stderr()).not.toContain(server.token)
  })

  test('prints one call per open product, and each of them works unchanged', async () => {
    const calls = server.stdout().match(/^(curl|echo) .+$/gm) ?? []
    // Shreds are pushed: there is nothing to call.
    const { shredstream: _, ...callable } = server.doors
    expect(calls).toHaveLength(Object.keys(callable).length)
    // Of the commands one is enough through npx, which takes longer than the call.
    const [npx, program] = ['npx --no -- sluice', 'node dist/src/main.js']
    const first = calls.findIndex((call) => call.includes(npx))
    expect(first).toBeGreaterThanOrEqual(0)
    for (const [at, printed] of calls.entries()) {
      const call = at === first ? printed : printed.replace(npx, program)
      const { stdout } = await run('bash', ['-c', call], {
        cwd: root,
        env: {
          ...process.env,
          TOKEN: server.token,
          INDEXER_USER: server.indexer.user,
          INDEXER_PASSWORD: server.indexer.password,
        },
      })
      expect(stdout, call).toMatch(/result|version|sluice|status|statistics/)
      expect(stdout, call).not.toMatch(/error/i)
    }
  })

  test('tells a browser what each endpoint is and where to read on', async () => {
    const page = async (endpoint: string, accept: string) => {
      const answer = await fetch(server.url(endpoint), { headers: { accept } })
      return [answer.status, await answer.text()]
    }
    const browser = 'text/html,application/xhtml+xml,*/*;q=0.8'
    const says = (text: string) => expect.stringMatching(new RegExp(`^[^\\n]*${text}[^\\n]*\\n?$`))
    expect(await page('rpc', browser)).toEqual([401, says('JSON-RPC endpoint.*docs/api/rpc.md')])
    expect(await page('tpu', browser)).toEqual([405, says('TPU Sender.*docs/api/tpu.md')])
    expect(await page('indexer', browser)).toEqual([200, says('indexer.*/play.*indexer.md')])
    expect(await page('indexer', '*/*')).toEqual([200, 'Ok.\n'])
  })

  test('says where a token goes when a call has none', async () => {
    const call = { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{}' }
    const answer = await fetch(server.url('rpc'), call)
    expect([answer.status, await answer.json()]).toEqual([
      401,
      {
        jsonrpc: '2.0',
        error: { code: -32401, message: expect.stringMatching(/x-token.*Authorization: Bearer/) },
        id: null,
      },
    ])
  })

  test('lets sluice call reach every endpoint, and follow subscriptions', async () => {
    const file = join(server.data, 'token')
    writeFileSync(file, server.token)
    const call = async (...words: string[]) => {
      const ran = await runHere('call', ...words, '--token-file', file, `--data=${server.data}`)
      expect([words, ran.code, ran.stderr]).toEqual([words, 0, ''])
      return ran.stdout
    }
    const alone = await sluice(server.data, 'call', 'rpc', 'getHealth', '--token-file', file)
    expect(alone).toEqual({ code: 0, stdout: 'ok\n', stderr: '' })
    for (const params of [`["${'1'.repeat(32)}"]`, '1'.repeat(32)])
      expect(await call('rpc', 'getBalance', params, '--json')).toContain('"value"')
    expect(await call('rpc', 'getBlockTime', '1')).toMatch(/^\d+\n$/)
    const me = await runHere('me', '--token-file', file, `--data=${server.data}`, '--json')
    expect(JSON.parse(me.stdout)).toMatchObject({ plan: 'standard', days: expect.any(Array) })
    expect(await call('ws', 'getVersion')).toContain('"sluice"')
    expect(JSON.parse(await call('grpc', 'Ping', '{"count":7}'))).toEqual({ count: 7 })
    expect(await call('grpc', 'grpc.health.v1.Health/Check')).toContain('SERVING')
    expect(JSON.parse(await call('tpu', 'getTipAccounts'))).toHaveLength(8)
    expect(await call('metrics', 'eth_chainId')).toMatch(/^0x\w+\n$/)
    const follow = async (...words: string[]) => {
      const form = ['--count', '2', '--json', '--token-file', file]
      const ran = await sluice(server.data, 'call', ...words, ...form)
      expect([words, ran.code, ran.stderr]).toEqual([words, 0, ''])
      return ran.stdout
    }
    const slots = await follow('ws', 'slotSubscribe')
    expect(slots.match(/"slotNotification"/g)).toHaveLength(2)
    const updates = await follow('grpc', 'Subscribe', '{"slots":{"s":{}}}')
    expect(updates.match(/"filters":\["s"\]/g)).toHaveLength(2)
  })

  test('lets sluice call report what the endpoint refused', async () => {
    const refused = async (...words: string[]) => {
      const { code, stderr } = await runHere('call', ...words, `--data=${server.data}`)
      return { code, stderr }
    }
    for (const words of ['rpc getHealth', 'ws getHealth', 'grpc GetVersion']) {
      const { code, stderr } = await refused(...words.split(' '))
      expect([words, code, stderr]).toEqual([words, 1, expect.stringMatching(/token|Unauth/)])
    }
    expect(await refused('tpu', 'frobnicate')).toEqual({
      code: 1,
      stderr: expect.stringContaining('-32601'),
    })
    expect(await refused('grpc', 'Frobnicate')).toEqual({
      code: 1,
      stderr: expect.stringContaining('GetVersion'),
    })
    expect((await refused('rpc', 'getBalance', '[no')).code).toBe(2)
    expect((await refused('indexer', 'x')).stderr).toContain('sluice query')
  })

  test.each(['web3.mjs', 'kit-pubsub.mjs'])(
    'confirms over PubSub for an unmodified client with the token in the URL: %s',
    async (file) => {
      const { stdout } = await run(process.execPath, [join(root, 'examples', file)], {
        env: {
          ...process.env,
          TOKEN: server.token,
          RPC_URL: server.url('rpc'),
          WEBSOCKET_URL: server.url('websocket'),
        },
        timeout: hangMs,
      })
      expect(stdout).toMatch(/^confirmed \w{80,}\n(slot \d+\n){3}$/)
    },
  )

  test('provisions demo with the bundle, the indexer and shredstream on the standard plan', async () => {
    const shown = await sluiceHere(server.data, 'subscription', 'show', 'demo', '--output=json')
    const subscription = JSON.parse(shown.stdout) as Record<string, unknown>
    expect(subscription).toMatchObject({
      subscription: {
        label: 'demo',
        plan: 'standard',
        state: 'active',
        products: ['bundle', 'indexer', 'shredstream'],
      },
    })
    expect(shown.stdout).not.toContain(server.token)
  })

  test('names the process that has locked the data folder', async () => {
    await expect(startServer({ data: server.data })).rejects.toThrow(
      new RegExp(`in use by process ${server.child.pid}`),
    )
  })

  test('is the only one: the next start on the folder prints no credentials', async () => {
    expect(await server.stop()).toBe(0)
    const again = await startServer({ data: server.data, flags: onlyMetrics })
    expect(again.stdout()).not.toMatch(/TOKEN|PASSWORD/)
    expect(again.stdout()).toContain('cannot be shown again')
    expect(again.stdout()).toContain(`npx --no -- sluice token rotate demo --data ${server.data}\n`)
    expect(await again.stop()).toBe(0)
  })
})

describe('a start that cannot be', () => {
  /** Ports that another process of the machine has. */
  const taken: NetServer[] = []
  const port = (at: number) => (taken[at]!.address() as AddressInfo).port
  beforeAll(async () => {
    for (let count = 0; count < 3; count++) {
      const other = createServer().listen(0, '127.0.0.1')
      await once(other, 'listening')
      taken.push(other)
    }
  })
  afterAll(() => {
    for (const other of taken) other.close()
  })

  test('names the endpoint whose port is taken', async () => {
    const data = join(tmpdir(), `sluice-test-absent-${process.pid}`)
    const flags = [...onlyMetrics, `--metrics.port=${port(0)}`]
    const start = startServer({ data, flags })
    await expect(start).rejects.toThrow(/metrics.* is taken by another process/)
    expect(existsSync(data)).toBe(false)
  })

  test('names every endpoint whose port is taken', async () => {
    const flags = ['rpc', 'tpu', 'metrics'].map((endpoint, at) => `--${endpoint}.port=${port(at)}`)
    await expect(startServer({ flags })).rejects.toThrow(
      /3 ports cannot be used\n.*rpc.* taken .*\n.*tpu.* taken .*\n.*metrics.* taken /,
    )
  })

  test('ends within a second of Ctrl-C, with code 0, no banner and no child process', async () => {
    const data = mkdtempSync(join(tmpdir(), 'sluice-test-'))
    const ports = ['rpc', 'websocket', 'grpc', 'metrics', 'tpu', 'shredstream', 'indexer'].map(
      (door) => `--${door}.port=0`,
    )
    const main = join(root, 'dist', 'src', 'main.js')
    const child = spawn(process.execPath, [main, 'serve', `--data=${data}`, ...ports])
    endWithProcess(child)
    let stdout = ''
    child.stdout.on('data', (chunk) => {
      stdout += chunk
    })
    const children = () =>
      readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8').trim().split(' ')
    await until(() => children()[0] !== '', 'its first child process')
    const started = children()
    const [fromMs, cpuWait] = [performance.now(), new CpuWait()]
    child.kill('SIGINT')
    expect(await once(child, 'exit')).toEqual([0, null])
    // Without the time that a busy machine had no core for it.
    expect(performance.now() - fromMs - cpuWait.stop()).toBeLessThan(2_000)
    expect(stdout).toBe('')
    // Killed, not asked: each is gone as soon as the system has seen to it.
    const isLeft = () => started.some((pid) => existsSync(`/proc/${pid}`))
    await until(() => !isLeft(), 'the end of its child processes')
    rmSync(data, { recursive: true, force: true })
  })

  test('ends by itself with code 1 where doors.json cannot be written', async () => {
    const data = mkdtempSync(join(tmpdir(), 'sluice-test-'))
    mkdirSync(join(data, 'doors.json', 'sub'), { recursive: true })
    const words = [commandPath, 'serve', `--data=${data}`, '--metrics.port=0', ...onlyMetrics]
    const child = spawn(process.execPath, words)
    endWithProcess(child)
    let stderr = ''
    child.stderr.on('data', (chunk) => {
      stderr += chunk
    })
    expect(await once(child, 'close')).toEqual([1, null])
    expect(stderr.match(/^sluice: .*$/gm)).toEqual([expect.stringContaining('doors.json')])
    rmSync(data, { recursive: true })
  })

  test('refuses to listen beyond loopback without TLS', async () => {
    await expect(startServer({ flags: ['--rpc.host=0.0.0.0'] })).rejects.toThrow(/allowPlaintext/)
  })

  test('names the nearest key of an unknown one', async () => {
    await expect(startServer({ flags: ['--rpc.prot=1'] })).rejects.toThrow(/rpc\.port/)
  })

  test('provisions nothing where an endpoint is not on loopback', async () => {
    const data = mkdtempSync(join(tmpdir(), 'sluice-test-'))
    const server = await startServer({
      data,
      flags: [...onlyMetrics, '--metrics.host=0.0.0.0', '--allowPlaintext=true'],
    })
    expect(server.stdout()).not.toContain('TOKEN')
    await server.dispose()
  })
})

test.runIf(hasOpenssl)('a start with a certificate and its key in one file works', async () => {
  const data = mkdtempSync(join(tmpdir(), 'sluice-test-'))
  const { certPath, keyPath } = makePair(join(data, 'tls'), 'own')
  appendFileSync(certPath, readFileSync(keyPath))
  const flags = [...onlyMetrics, `--tls.cert=${certPath}`, `--tls.key=${certPath}`]
  const server = await startServer({ data, flags })
  expect(server.url('metrics')).toContain('https://')
  expect(server.stdout()).toContain(certPath)
  await server.dispose()
})
