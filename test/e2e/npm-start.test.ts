// `npm start` as a process manager runs it: a signal to npm itself ends the server.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { type EndpointAddress, sluice } from '../testkit/server.ts'
import { root } from '../testkit/tree.ts'
import { until } from '../testkit/until.ts'

const onlyMetrics = ['rpc', 'websocket', 'grpc', 'tpu', 'shredstream', 'indexer'].map(
  (name) => `--${name}.enabled=false`,
)

for (const signal of ['SIGTERM', 'SIGINT'] as const)
  test(`${signal} to npm ends the server and frees its ports`, async () => {
    const data = mkdtempSync(join(tmpdir(), 'sluice-npm-'))
    const doorsFile = join(data, 'doors.json')
    const words = ['start', '--', `--data=${data}`, '--metrics.port=0', ...onlyMetrics]
    const npm = spawn('npm', words, { cwd: root, stdio: 'ignore' })
    const exited = once(npm, 'exit')
    await until(() => existsSync(doorsFile), 'the endpoints to open')
    const { metrics } = JSON.parse(readFileSync(doorsFile, 'utf8')) as { metrics: EndpointAddress }
    const { stdout } = await sluice(data, 'status', '--output=json')
    const { pid } = JSON.parse(stdout) as { pid: number }
    // A failed test must not leave a server running.
    process.once('exit', () => isAlive(pid) && process.kill(pid, 'SIGKILL'))
    try {
      expect([isAlive(pid), await isOpen(metrics)]).toEqual([true, true])
      npm.kill(signal)
      await exited
      await until(() => !isAlive(pid), 'the server to end')
      expect(await isOpen(metrics)).toBe(false)
    } finally {
      rmSync(data, { recursive: true, force: true })
    }
  })

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

function isOpen({ host, port }: EndpointAddress): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, host)
    socket.once('connect', () => {
      socket.destroy()
      resolve(true)
    })
    socket.once('error', () => resolve(false))
  })
}
