// Idle connections of one address to the HTTP endpoints of a process with few descriptors: other
// addresses are served.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { afterEach, expect, test } from 'vitest'
import { sendRaw } from '../testkit/raw-http.ts'
import { root } from '../testkit/tree.ts'
import { until } from '../testkit/until.ts'

const descriptors = 300
let child: ChildProcess
const crowd = new Set<Socket>()
let refill: NodeJS.Timeout

afterEach(async () => {
  clearInterval(refill)
  for (const socket of crowd) socket.destroy()
  if (child.exitCode !== null) return
  child.kill('SIGKILL')
  await once(child, 'exit')
})

/** Ports of three endpoints, with more idle connections to them than there are descriptors. */
async function crowded(perAddressMax: number): Promise<number[]> {
  const script = join(root, 'test', 'testkit', 'crowded-endpoints.mjs')
  const command = `ulimit -n ${descriptors} && exec "$0" "$@"`
  const words = ['-c', command, process.execPath, script, String(perAddressMax)]
  child = spawn('/bin/sh', words, { stdio: ['ignore', 'pipe', 'inherit'] })
  const ended = once(child, 'exit').then(() => Promise.reject(new Error('the endpoints ended')))
  const [text] = await Promise.race([once(child.stdout!, 'data'), ended])
  const ports: number[] = JSON.parse(String(text))
  ended.catch(() => {})
  let opened = 0
  refill = setInterval(() => {
    while (crowd.size < descriptors) {
      const port = ports[opened++ % ports.length]!
      const socket = connect({ port, host: '127.0.0.1', localAddress: '127.0.0.2' })
      crowd.add(socket)
      socket.on('error', () => {})
      socket.on('close', () => crowd.delete(socket))
    }
  }, 50)
  await until(() => opened > 2 * descriptors, 'connections to be closed')
  return ports
}

/** How many of 30 requests from another address are answered. */
async function answeredOf(ports: readonly number[]): Promise<number> {
  let answered = 0
  for (let count = 0; count < 30; count++) {
    const port = ports[count % ports.length]!
    const { status } = await sendRaw(port, 'GET / HTTP/1.1\r\nhost: a\r\n\r\n')
    if (status === 200) answered++
  }
  return answered
}

test('an address takes no more connections than it may, and others are served', async () => {
  const ports = await crowded(20)
  expect(await answeredOf(ports)).toBe(30)
  expect(readdirSync(`/proc/${child.pid}/fd`).length).toBeLessThan(descriptors / 2)
})

test('without a limit it takes all descriptors', async () => {
  const ports = await crowded(0)
  expect(await answeredOf(ports)).toBeLessThan(30)
})
