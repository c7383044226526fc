import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { fieldOfFlag, type LoadRequest, loadConfig } from '../../../../src/operator/config/load.ts'

const folder = mkdtempSync(join(tmpdir(), 'sluice-load-'))
afterAll(() => rmSync(folder, { recursive: true }))

function file(name: string, body: string): string {
  const path = join(folder, name)
  writeFileSync(path, body)
  return path
}

async function load(request: LoadRequest) {
  return loadConfig({ env: {}, ...request })
}

async function problemsOf(request: LoadRequest): Promise<readonly string[]> {
  const result = await load(request)
  return result.ok ? [] : result.problems
}

describe('layers', () => {
  test('without anything every key has its default and no origin', async () => {
    const result = await load({})
    if (!result.ok) throw new Error(result.problems.join())
    expect(result.config.data).toBe('./data')
    expect(result.config.tls).toEqual({ cert: '', key: '' })
    expect(result.origins.size).toBe(0)
    expect(Object.isFrozen(result.config) && Object.isFrozen(result.config.tls)).toBe(true)
  })

  test('flags win over the environment, which wins over the file', async () => {
    const path = file('layers.yaml', 'data: from-file\nlogLevel: warn\ntls:\n')
    const env = { SLUICE_DATA: 'from-env', SLUICE_LOG_LEVEL: 'error' }
    const result = await load({ file: path, env, flags: [{ key: 'data', value: 'from-flag' }] })
    if (!result.ok) throw new Error(result.problems.join())
    expect(result.config.data).toBe('from-flag')
    expect(result.config.logLevel).toBe('error')
    expect(result.origins.get('data')).toBe('--data')
    expect(result.origins.get('logLevel')).toBe('SLUICE_LOG_LEVEL')
  })

  test('a variable or flag is found in any usual spelling', async () => {
    for (const key of ['trustedProxies', 'trusted-proxies', 'trustedproxies']) {
      const result = await load({ flags: [{ key, value: '10.0.0.0/8,fd00::/8' }] })
      expect(result.ok && result.config.trustedProxies).toEqual(['10.0.0.0/8', 'fd00::/8'])
    }
    const env = { SLUICE_TLS__CERT: 'a.pem', SLUICE_TLS__KEY: 'b.pem', SLUICE_ALLOWPLAINTEXT: '1' }
    const result = await load({ env })
    expect(result.ok && result.config.tls.cert).toBe('a.pem')
    expect(result.ok && result.config.allowPlaintext).toBe(true)
    expect(fieldOfFlag('allow-plaintext')?.type).toBe('true or false')
    expect(fieldOfFlag('tls')).toBe(null)
  })

  test('SLUICE_CONFIG names the file when no flag does', async () => {
    const path = file('by-env.yaml', 'data: elsewhere\n')
    const result = await load({ env: { SLUICE_CONFIG: path } })
    expect(result.ok && result.config.data).toBe('elsewhere')
  })

  test('variables of the test suite and of a Kubernetes service are no keys', async () => {
    const env = {
      SLUICE_TEST_DATA: '/x',
      SLUICE_SERVICE_HOST: '10.0.0.1',
      SLUICE_PORT: 'tcp://10.0.0.1:8899',
      SLUICE_PORT_8899_TCP_ADDR: '10.0.0.1',
    }
    expect(await problemsOf({ env })).toEqual([])
  })
})

describe('problems', () => {
  test('all are reported together, each with its origin', async () => {
    const path = file('bad.yaml', 'dta: x\nallowPlaintext: perhaps\ntrustedProxies: [nonsense]\n')
    const env = { SLUICE_LOG_LEVEL: 'loud' }
    const problems = await problemsOf({ file: path, env, flags: [{ key: 'tls', value: 'x' }] })
    expect(problems).toHaveLength(5)
    const all = problems.join('\n')
    expect(all).toContain(`${path}: line 1: unknown key dta; the nearest known one is data`)
    expect(all).toContain(`${path}: line 2: allowPlaintext must be true or false, got "perhaps"`)
    expect(all).toContain('nonsense is not a CIDR')
    expect(all).toContain('SLUICE_LOG_LEVEL: logLevel must be one of debug')
    expect(all).toContain('--tls: tls is a section; set one of its keys: cert, key')
  })

  test('the line of a key is named, in sections, names and lists', async () => {
    const path = file(
      'lines.yaml',
      [
        'plan: { gold: {} }',
        'rpc:',
        '  port: x',
        'rpc.host: a',
        'upstreams:',
        '  main:',
        '    nodes:',
        '      - rpc: http://127.0.0.1:1',
        '        weigt: 1',
      ].join('\n'),
    )
    const problems = (await problemsOf({ file: path })).filter((one) => one.startsWith(path))
    expect(problems.map((problem) => problem.slice(path.length + 2))).toEqual([
      'line 1: unknown key plan; the nearest known one is plans',
      'line 4: unknown key rpc.host: in a file each part is a key inside the other',
      'line 9: unknown key upstreams.main.nodes.0.weigt; ' +
        'the nearest known one is upstreams.main.nodes.0.weight',
      'line 3: rpc.port must be an integer, got "x"',
    ])
  })

  test('an unknown key of a flag or variable names the nearest known one', async () => {
    const flags = [{ key: 'tls.crt', value: 'x' }]
    const problems = await problemsOf({ flags, env: { SLUICE_TLS__KEYS: 'y' } })
    expect(problems.join('\n')).toContain(
      '--tls.crt: unknown key tls.crt; the nearest known one is tls.cert',
    )
    expect(problems.join('\n')).toContain(
      'SLUICE_TLS__KEYS: unknown key tls.keys; the nearest known one is tls.key',
    )
  })

  test('conflicts between keys are reported in the same run as bad keys', async () => {
    const flags = [
      { key: 'rpc.prt', value: '5' },
      { key: 'rpc.host', value: '0.0.0.0' },
    ]
    const problems = await problemsOf({ flags })
    expect(problems).toHaveLength(2)
    expect(problems[1]).toContain('rpc.host 0.0.0.0 is not a loopback address')
  })

  test('a key that is a mapping is not quoted, nor is it in a warning of the process', async () => {
    const warned: string[] = []
    const listen = (warning: Error) => warned.push(warning.message)
    process.on('warning', listen)
    const path = file('mapping-key.yaml', '? {token: s3cret}\n: 1\n')
    expect((await problemsOf({ file: path })).join()).not.toContain('s3cret')
    await new Promise((resolve) => setImmediate(resolve))
    process.off('warning', listen)
    expect(warned).toEqual([])
  })

  test('a broken line is named and not quoted: it may contain a secret', async () => {
    const path = file('quoted.yaml', 'data: "x\ntls: {key: hush')
    const problems = await problemsOf({ file: path })
    expect(problems.join()).toContain('line ')
    expect(problems.join()).not.toContain('hush')
  })

  test('half a certificate pair is refused', async () => {
    const one = await problemsOf({ flags: [{ key: 'tls.cert', value: 'a' }] })
    expect(one).toEqual(['tls.cert is set without tls.key: set both or none'])
    const other = await problemsOf({ flags: [{ key: 'tls.key', value: 'a' }] })
    expect(other).toEqual(['tls.key is set without tls.cert: set both or none'])
  })

  test.each([
    ['a missing file', 'absent.yaml', undefined, 'ENOENT'],
    ['broken YAML', 'broken.yaml', 'a: b\ndata: [\n', 'line 3: Flow sequence in block'],
    ['an unknown tag', 'tag.yaml', 'data: !odd x\n', 'line 1: Unresolved tag'],
    ['a key given twice', 'twice.yaml', 'data: a\ndata: b\n', 'Map keys must be unique'],
    ['a list where keys belong', 'list.yaml', '- data\n', 'must be keys with values'],
    ['a text where a section belongs', 'text.yaml', 'tls: yes\n', 'tls must be keys with values'],
    ['a key of the prototype', 'proto.yaml', 'constructor: 1\n', 'unknown key constructor'],
    ['a wrong type', 'type.yaml', 'data: {a: 1}\n', 'data must be text'],
  ])('%s is a problem of that file', async (_, name, body, sentence) => {
    const path = body === undefined ? join(folder, name) : file(name, body)
    const problems = await problemsOf({ file: path })
    expect(problems).toHaveLength(1)
    expect(problems[0]).toContain(sentence)
    expect(problems[0]).toContain(path)
  })
})

describe('sources', () => {
  const recorded = [
    { key: 'metrics.source', value: 'snapshot' },
    { key: 'metrics.path', value: 'a.zst' },
  ]

  test('mixing embedded with real sources is a problem that names the keys to set', async () => {
    const result = await load({ flags: recorded })
    expect(result.ok ? [] : result.problems).toEqual([
      'metrics.source is a real source and chain.source is not set: set chain.source, or ' +
        'rpc.enabled: false, websocket.enabled: false, grpc.enabled: false, tpu.enabled: false',
      'metrics.source is a real source and shredstream.feed is not set: set shredstream.feed, or ' +
        'shredstream.enabled: false',
    ])
  })

  test('a key that is set to embedded explicitly is no problem', async () => {
    const explicit = ['chain.source', 'shredstream.feed'].map((key) => ({ key, value: 'embedded' }))
    const result = await load({ flags: [...recorded, ...explicit] })
    expect(result.ok).toBe(true)
  })
})
