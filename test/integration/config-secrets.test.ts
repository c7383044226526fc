// Keys inside node addresses: no command shows them, and neither the log nor the status does.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import { type Ran, runCommand } from '../testkit/command.ts'
import { runHere } from '../testkit/run-here.ts'
import { type Server, startServer } from '../testkit/server.ts'
import { until } from '../testkit/until.ts'

const secrets = ['s3cret-path', 's3cret-query', 's3cret-user', 's3cret-password', 's3cret-token']
const [path, query, user, password, xToken] = secrets
const rest = `127.0.0.1:9/${path}?api-key=${query}`
const node = {
  rpc: `http://${user}:${password}@${rest}`,
  ws: `ws://${rest}`,
  grpc: `http://${rest}`,
  xToken: xToken!,
}
const folder = mkdtempSync(join(tmpdir(), 'sluice-secrets-'))
/** Beside a real node every product's source is set. */
const explicit = {
  SLUICE_CHAIN__SOURCE: 'embedded',
  SLUICE_METRICS__SOURCE: 'embedded',
  SLUICE_SHREDSTREAM__FEED: 'embedded',
}
const explicitFlags = [
  '--chain.source=embedded',
  '--metrics.source=embedded',
  '--shredstream.feed=embedded',
]
const nodeEnv = Object.fromEntries(
  Object.entries(node).map(([key, value]) => [
    `SLUICE_UPSTREAMS__SPARE__NODES__0__${key.toUpperCase()}`,
    value,
  ]),
)
const env = { ...explicit, ...nodeEnv }
afterAll(() => rmSync(folder, { recursive: true, force: true }))

function fileOf(content: unknown): string {
  const file = join(folder, 'sluice.yaml')
  writeFileSync(file, typeof content === 'string' ? content : JSON.stringify(content))
  return file
}

function expectHidden({ stdout, stderr }: Pick<Ran, 'stdout' | 'stderr'>, what: string): void {
  for (const secret of secrets) expect(stdout + stderr, what).not.toContain(secret)
}

describe('the secrets of a node', () => {
  it('are not in what config print shows: the origin is', async () => {
    const file = fileOf({ upstreams: { spare: { nodes: [node, { rpc: 'http://node:8899' }] } } })
    const text = await runCommand(['config', 'print', `--config=${file}`], explicit)
    const json = await runCommand(
      ['config', 'print', `--config=${file}`, '--output=json'],
      explicit,
    )
    const byEnvironment = await runCommand(['config', 'print'], env)
    for (const ran of [text, json, byEnvironment]) {
      expect(ran.code).toBe(0)
      expectHidden(ran, ran.stdout)
    }
    const shown = {
      rpc: 'http://127.0.0.1:9/(set)',
      ws: 'ws://127.0.0.1:9/(set)',
      grpc: 'http://127.0.0.1:9/(set)',
      xToken: '(set)',
    }
    const { config } = json.json() as { config: { upstreams: unknown } }
    for (const { upstreams } of [parse(text.stdout), config])
      expect(upstreams).toMatchObject({
        spare: { nodes: [shown, { rpc: 'http://node:8899', ws: '', xToken: '' }] },
      })
  })

  it('are not in the problems that config check names', async () => {
    const nodes = (...list: unknown[]) => ({ upstreams: { spare: { nodes: list } } })
    const broken = [
      nodes({ ...node, rpc: node.ws }),
      nodes({ ...node, ws: node.rpc }),
      nodes({ ...node, grpc: [node.grpc] }),
      nodes({ ...node, rpc: `http://[${path}` }),
      nodes(node.rpc),
      { upstreams: { spare: { nodes: node.rpc } } },
      { tpu: { upstreams: [node.ws] } },
      { indexer: { url: [node.rpc] } },
      `upstreams: { spare: { nodes: [{rpc:${node.rpc}}] } }`,
      `upstreams: { spare: { nodes: [{rpc: "${node.rpc}]`,
    ]
    for (const content of broken) {
      const what = JSON.stringify(content)
      const ran = await runHere('config', 'check', `--config=${fileOf(content)}`, ...explicitFlags)
      expect(ran.code, what).toBe(1)
      expectHidden(ran, `${what}: ${ran.stdout}${ran.stderr}`)
    }
  })

  describe('of a running server', () => {
    let server: Server
    beforeAll(async () => {
      server = await startServer({ env, flags: ['--metrics.enabled=false', '--chain.traffic=0'] })
    })
    afterAll(() => server?.dispose())

    it('are not in its log, its status or what doctor shows', async () => {
      const data = `--data=${server.data}`
      await until(() => server.stderr().includes('spare/1'), 'the log to name the node')
      for (const words of [['status'], ['status', '--output=json'], ['doctor', '--output=json']]) {
        const ran = await runCommand([...words, data], env)
        expectHidden(ran, words.join(' '))
        if (words[0] === 'status') expect(ran.stdout).toContain('spare/1')
      }
      expectHidden({ stdout: server.stdout(), stderr: server.stderr() }, 'the log')
    })
  })
})
