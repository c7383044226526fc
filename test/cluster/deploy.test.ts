// deploy/cluster/local.sh: PostgreSQL, a hub, two gateways and haproxy on one machine, as a customer
// meets them through the load balancer.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Follower } from '../testkit/follower.ts'
import { root } from '../testkit/tree.ts'
import { until } from '../testkit/until.ts'
import { hasPostgres } from './postgres.ts'

const front = '127.0.0.4'
/** Below the ports that other programs' connections have. */
const base = 20_000 + Math.floor(Math.random() * 1_000) * 10
const [rpc, grpc, metrics] = [base + 1, base + 3, base + 4]

function hasHaproxy(): boolean {
  try {
    execFileSync('haproxy', ['-v'], { stdio: 'ignore' })
    return true
  } catch {
    console.warn('skipped: no haproxy (package haproxy)')
    return false
  }
}

describe.skipIf(!hasPostgres() || !hasHaproxy())('a cluster behind haproxy', () => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-deploy-'))
  let script: ChildProcess
  let output = ''

  beforeAll(async () => {
    script = spawn(join(root, 'deploy/cluster/local.sh'), [folder], {
      env: { ...process.env, PORT_BASE: String(base) },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    for (const stream of [script.stdout!, script.stderr!])
      stream.on('data', (chunk) => {
        output += chunk
      })
    const isUp = () => {
      if (script.exitCode !== null) throw new Error(`local.sh ended: ${output}`)
      return output.includes('token in')
    }
    await until(isUp, 'the cluster to start')
  })

  afterAll(async () => {
    if (script.exitCode === null && script.signalCode === null) {
      script.kill('SIGTERM')
      await once(script, 'exit')
    }
    rmSync(folder, { recursive: true, force: true })
  })

  const token = () => readFileSync(join(folder, 'token'), 'utf8').trim()
  const call = async () => {
    const response = await fetch(`http://${front}:${rpc}`, {
      method: 'POST',
      headers: { 'x-token': token(), 'content-type': 'application/json' },
      body: '{"jsonrpc":"2.0","id":1,"method":"getSlot"}',
      signal: AbortSignal.timeout(10_000),
    })
    return response.status
  }
  const isServed = async () => (await call().catch(() => 0)) === 200

  it('serves calls, streams and events through it', async () => {
    await until(isServed, 'a ready gateway')
    const follower = new Follower(`${front}:${grpc}`, token(), 1)
    await until(() => follower.newest >= 0, 'the first block')
    await follower.reaches(follower.newest + 3)
    follower.stop()
    expect([follower.gaps(), follower.duplicates]).toEqual([[], 0])
    const ready = await fetch(`http://${front}:${metrics}/ready`)
    expect(await ready.json()).toMatchObject({ ready: true })
  })

  it('moves new callers to the other gateway when one is killed', async () => {
    // PostgreSQL, hub, two gateways, haproxy.
    const pids = readFileSync(join(folder, 'pids'), 'utf8').trim().split('\n').map(Number)
    process.kill(pids[2]!, 'SIGKILL')
    await until(isServed, 'an answer of the other one')
    for (let at = 0; at < 20; at++) expect(await call()).toBe(200)
  })
})
