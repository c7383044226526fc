// The verbs that look at things, and what all verbs share.
import { spawn, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { silentLog } from '../../src/base/telemetry/log.ts'
import { startOperatorSocket } from '../../src/base/transport/unix-socket.ts'
import { hasOpenssl, makePair } from '../testkit/certificates.ts'
import { commandPath, type Ran, runCommand } from '../testkit/command.ts'
import { runHere } from '../testkit/run-here.ts'

const folder = mkdtempSync(join(tmpdir(), 'sluice-command-'))
const data = join(folder, 'data')
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const run = (words: readonly string[]): Promise<Ran> => runHere(...words)

function file(name: string, body: string): string {
  const path = join(folder, name)
  writeFileSync(path, body)
  return path
}

describe('help', () => {
  test('lists every command; without words it is a misuse', async () => {
    const asked = await runCommand(['--help'])
    expect(asked.code).toBe(0)
    expect(asked.stdout).toContain('subscription add <label>')
    expect(asked.stdout).toContain('0 done, 1 refused, 2 usage, 3 not found')
    const bare = await runCommand([])
    expect(bare.code).toBe(2)
    expect(bare.stdout).toBe('')
  })

  test('of a verb shows its flags, of serve every key, of a family its verbs', async () => {
    const add = await runCommand(['subscription', 'add', '--help'])
    expect(add.stdout).toContain('--destination <ip:port>')
    const serve = await runCommand(['help', 'serve'])
    expect(serve.stdout).toContain('--trustedProxies')
    expect(serve.stdout).toContain('--fresh')
    const family = await runCommand(['destination', '--help'])
    expect(family.code).toBe(0)
    expect(family.stdout).toContain('destination confirm')
    expect(family.stdout).not.toContain('token rotate')
  })

  test('the version is that of the package', async () => {
    expect((await runCommand(['--version'])).stdout).toMatch(/^\d+\.\d+\.\d+\n$/)
  })
})

describe('configuration', () => {
  test('check reports all problems with exit code 1, and a valid one with 0', async () => {
    const path = file('bad.yaml', 'dta: 1\nlogLevel: loud\n')
    const bad = await run(['config', 'check', '--config', path, '--output', 'json'])
    expect(bad.code).toBe(1)
    expect(bad.json()).toMatchObject({
      ok: false,
      problems: [expect.any(String), expect.any(String)],
    })
    const good = await run(['config', 'check', '--data', data])
    expect(good.stdout).toBe('The configuration is valid.\n')
    expect(good.code).toBe(0)
    const flags = ['--tls.cert', '/absent.pem', '--tls.key', '/absent.key']
    const unread = await run(['config', 'check', ...flags])
    expect(unread.code).toBe(1)
    expect(unread.stdout).toContain('cannot read /absent.pem')
  })

  test.skipIf(!hasOpenssl)('check reads the certificate and its key as a start does', async () => {
    const { certPath, keyPath } = makePair(folder, 'pair')
    const check = (key: string) =>
      run(['config', 'check', '--tls.cert', certPath, '--tls.key', key])
    expect((await check(keyPath)).stdout).toBe('The configuration is valid.\n')
    const wrong = await check(certPath)
    expect([wrong.code, wrong.stdout]).toEqual([
      1,
      expect.stringContaining('tls.cert and tls.key do not match'),
    ])
  })

  test('check, products and doctor name a set that has no websocket and no grpc', async () => {
    const flagsWith = (node: object) => {
      const config = {
        chain: { source: 'embedded' },
        metrics: { source: 'embedded' },
        shredstream: { enabled: false },
        upstreams: { acme: { nodes: [node] } },
      }
      // YAML takes JSON as it is.
      return ['--config', file('sets.yaml', JSON.stringify(config)), '--data', data]
    }
    const sentence =
      'upstreams.acme has no websocket and no grpc: set grpc of a node to its geyser address'
    const rpc = 'http://127.0.0.1:9'
    for (const words of [['config', 'check'], ['products'], ['doctor']]) {
      const plain = await run([...words, ...flagsWith({ rpc })])
      expect(plain.stdout.split(sentence)).toHaveLength(2)
      const fed = await run([...words, ...flagsWith({ rpc, grpc: rpc })])
      expect(fed.stdout).not.toContain('no websocket')
    }
    const flags = [...flagsWith({ rpc }), '--output', 'json']
    const checked = await run(['config', 'check', ...flags])
    expect(checked.json()).toEqual({ ok: true, problems: [], warnings: [sentence] })
  })

  test('any other verb stops on a bad one with exit code 2 and the whole list', async () => {
    const ran = await runCommand(['products'], { SLUICE_LOG_LEVEL: 'loud', SLUICE_TLS__CRT: 'x' })
    expect(ran.code).toBe(2)
    expect(ran.stderr).toContain('2 problems')
    expect(ran.stderr).toContain('SLUICE_LOG_LEVEL: logLevel must be one of')
    expect(ran.stderr).toContain('the nearest known one is tls.cert')
  })

  test('print gives YAML that loads again, from file, environment and flags', async () => {
    const path = file('good.yaml', 'plans:\n  gold:\n    burst: 900\n')
    const words = ['config', 'print', '--config', path, '--trustedProxies', '10.0.0.0/8']
    const ran = await runCommand(words, { SLUICE_DATA: data })
    const values = parse(ran.stdout)
    expect(values).toMatchObject({ data, trustedProxies: ['10.0.0.0/8'] })
    expect(values.plans.gold.burst).toBe(900)
    expect(ran.stdout).toContain('# SLUICE_DATA')
    const again = await run(['config', 'print', '--config', file('again.yaml', ran.stdout)])
    expect(parse(again.stdout)).toEqual(values)
    const json = await run([...words, '--output', 'json'])
    expect(json.json()).toMatchObject({ config: { trustedProxies: ['10.0.0.0/8'] } })
  })

  test('docs prints the page of every key, also when the configuration is broken', async () => {
    const ran = await runCommand(['config', 'docs'], { SLUICE_LOG_LEVEL: 'loud' })
    expect(ran.code).toBe(0)
    expect(ran.stdout).toContain('| `plans.<name>.burst` |')
  })

  test('a plan of the file can be given to a subscription', async () => {
    const path = file('plans.yaml', `data: ${join(folder, 'planned')}\nplans:\n  gold: {}\n`)
    const add = ['subscription', 'add', 'rich', '--product', 'bundle', '--plan', 'gold']
    expect((await run([...add, '--config', path])).code).toBe(0)
    const other = await run([...add, '--data', join(folder, 'planned')])
    expect(other.code).toBe(1)
  })
})

describe('looking', () => {
  test('products gives the catalogue of the specification', async () => {
    const ran = await run(['products', '--output', 'json'])
    const { products } = ran.json() as { products: { name: string; state: string }[] }
    const rows = new Map(products.map((one) => [one.name, one]))
    expect([...rows.keys()]).toEqual([
      'Bundle: RPC',
      'Bundle: WebSocket',
      'Bundle: gRPC',
      'Indexer',
      'ShredStream Raw',
      'TPU Sender',
      'ShredStream Decoded',
      'Dedicated Node',
      'Metrics service',
    ])
    expect(rows.get('ShredStream Decoded')).toMatchObject({
      authorization: 'to be confirmed',
      state: 'coming soon',
    })
    expect(rows.get('Dedicated Node')?.state).toBe('arranged individually')
    expect((await run(['products'])).stdout).toMatch(/^PRODUCT +NAME +AUTHORIZATION/)
  })

  test('status reports that no server runs, and the state of a running one', async () => {
    const none = await run(['status', '--data', data, '--output', 'json'])
    expect(none.code).toBe(1)
    expect(none.json()).toEqual({ running: false, data })
    expect((await run(['status', '--data', data])).stdout).toContain('npm start')
    const status = () => ({ version: '1', doors: { rpc: { port: 7 } }, sources: {} })
    const socket = await startOperatorSocket(data, { status }, silentLog)
    const some = await run(['status', '--data', data, '--output', 'json'])
    expect(some.json()).toEqual({
      running: true,
      version: '1',
      doors: { rpc: { port: 7 } },
      sources: {},
    })
    expect(some.code).toBe(0)
    const table = await run(['status', '--data', data])
    expect(table.stdout).toMatch(/^rpc +open .*:7/m)
    await socket.stop()
  })

  test('cluster status asks the gateway of the data folder where cluster.url is not set', async () => {
    const status = () => run(['cluster', 'status', '--data', data])
    const none = await status()
    expect([none.code, none.stderr]).toEqual([
      2,
      expect.stringContaining('no gateway of a cluster'),
    ])
    const info = { registry: 7, state: 'following' }
    const gateways = [{ session: 's', name: 'g1', ageMs: 12, info }]
    const cluster = () => ({ registry: { seq: 7, hash: 'h' }, gateways })
    const socket = await startOperatorSocket(data, { cluster }, silentLog)
    expect((await status()).stdout).toMatch(/newest change: +7\n[\s\S]*g1 +running +7 +following/)
    await socket.stop()
  })

  test('doctor names every check and what to do next', async () => {
    const ran = await run(['doctor', '--data', data, '--output', 'json'])
    const { checks } = ran.json() as { checks: { name: string; state: string; next: string }[] }
    const names = checks.map((check) => check.name)
    const wanted = [
      'node',
      'glibc',
      'open files',
      'disk',
      'clock',
      'udp receive buffer',
      'registry',
    ]
    expect(names).toEqual(expect.arrayContaining(wanted))
    for (const check of checks) expect(check.next === '').toBe(check.state === 'ok')
    expect(existsSync(join(data, 'registry'))).toBe(false)
  })

  test('doctor fails on a file that is not a registry', async () => {
    const broken = join(folder, 'broken')
    mkdirSync(join(broken, 'registry', 'data.mdb'), { recursive: true })
    const ran = await run(['doctor', '--data', broken, '--output', 'json'])
    expect(ran.code).toBe(1)
    const { checks } = ran.json() as { checks: object[] }
    expect(checks).toContainEqual(expect.objectContaining({ name: 'registry', state: 'fail' }))
  })

  test('completion prints a script that bash takes', async () => {
    const ran = await run(['completion', 'bash'])
    expect(spawnSync('bash', ['-n'], { input: ran.stdout }).status).toBe(0)
    expect((await run(['completion', 'tcsh'])).code).toBe(2)
  })
})

describe('manners', () => {
  test('a reader that closes early is no error', async () => {
    const shell = `${process.execPath} ${commandPath} config docs | head -c 10; echo "\${PIPESTATUS[0]}"`
    const ran = spawnSync('bash', ['-c', shell], { encoding: 'utf8' })
    expect(ran.stdout).toMatch(/0\n$/)
    expect(ran.stderr).toBe('')
  })

  test('an output that cannot be written is one sentence', () => {
    const shell = `${process.execPath} ${commandPath} config docs > /dev/full`
    const { status, stderr } = spawnSync('bash', ['-c', shell], { encoding: 'utf8' })
    expect([status, stderr]).toEqual([1, expect.stringMatching(/^sluice: .*ENOSPC.*\n$/)])
  })

  test('prompts on a terminal, changes nothing after no, and --yes skips the prompt', async (context) => {
    if (spawnSync('script', ['--version']).error !== undefined)
      return context.skip('script(1) is not here')
    const here = join(folder, 'asked')
    await runCommand(['subscription', 'add', 'acme', '--product', 'bundle', '--data', here])
    const rotate = `${process.execPath} ${commandPath} token rotate acme --data ${here}`
    const refused = await onTerminal(rotate, 'n\n')
    expect(refused.output).toContain('The old token stops working at once. [y/N]')
    expect(refused.output).not.toContain('TOKEN=')
    expect(refused.code).toBe(1)
    for (const key of ['\u0003', '\u0004']) {
      const left = await onTerminal(rotate, key)
      expect(left.output).toContain('nothing was changed')
      expect(left.code).toBe(1)
    }
    const agreed = await onTerminal(rotate, 'y\n')
    expect(agreed.output).toContain('TOKEN=')
    expect(agreed.code).toBe(0)
    const beforehand = await onTerminal(`${rotate} --yes`, '')
    expect(beforehand.output).not.toContain('[y/N]')
    expect(beforehand.output).toContain('TOKEN=')
  })
})

/** Runs a shell command under a pseudo-terminal and answers its question once it is asked. */
function onTerminal(
  command: string,
  answer: string,
): Promise<{ code: number | null; output: string }> {
  return new Promise((done, fail) => {
    const child = spawn('script', ['-qec', command, '/dev/null'], {
      stdio: ['pipe', 'pipe', 'pipe'],
    })
    let output = ''
    let isAnswered = false
    child.stdout.on('data', (chunk) => {
      output += chunk
      if (isAnswered || !output.includes('[y/N]')) return
      isAnswered = true
      child.stdin.write(answer)
    })
    child.on('error', fail)
    child.on('close', (code) => done({ code, output }))
  })
}
