// Strangers who ask the metrics service for as much as they can: what they get is bounded, and the
// other endpoints go on answering.
import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { WebSocket } from 'ws'
import { batchBytesMax } from '../../src/products/metrics/rpc.ts'
import { blockBatch, sendFrom } from '../testkit/from-address.ts'
import { type Server, startServer } from '../testkit/server.ts'
import { until } from '../testkit/until.ts'

const attackers = Array.from({ length: 8 }, (_, index) => `127.0.0.${index + 2}`)
/** The others ask this often while the attack goes on. */
const asks = 20
const result = '"result":{'
/** More than the errors of a batch have. */
const errorBytes = 20_000
const mebibyte = 1024 * 1024

describe.each([515, 10_000])('eight strangers with batches of whole blocks at %d TPS', (tps) => {
  let server: Server

  beforeAll(async () => {
    server = await startServer({
      flags: [
        `--metrics.generator.tps=${tps}`,
        `--addressBudget.bytesBurst=${8 * mebibyte}`,
        `--addressBudget.bytesPerSecond=${mebibyte}`,
      ],
    })
    const latest = { jsonrpc: '2.0', id: 1, method: 'eth_getBlockByNumber', params: ['latest'] }
    await until(async () => {
      const body = JSON.stringify(latest)
      const got = await sendFrom('127.0.0.1', server.url('metrics'), { method: 'POST', body })
      return JSON.parse(got.body).result !== null
    }, 'the first block')
  })
  afterAll(() => server.dispose())

  test('get bounded answers and 429; the others are answered, memory stays bounded', async () => {
    const before = residentBytes(server)
    const counts = { ok: 0, refused: 0, other: 0, tooLong: 0 }
    let isOver = false
    const attack = async (address: string) => {
      while (!isOver) {
        const sending = { method: 'POST', body: blockBatch(100) }
        const { status, body } = await sendFrom(address, server.url('metrics'), sending)
        // One block is answered whatever its length, a second one only within the bound.
        const isOneBlock = body.indexOf(result) === body.lastIndexOf(result)
        if (!isOneBlock && body.length > batchBytesMax + errorBytes) counts.tooLong++
        counts[status === 200 ? 'ok' : status === 429 ? 'refused' : 'other']++
      }
    }
    const attacks = attackers.map(attack)
    for (let asked = 0; asked < asks; asked++) await askOthers(server)
    await until(() => counts.refused >= attackers.length, 'every stranger to be refused')
    const peak = residentBytes(server)
    isOver = true
    await Promise.all(attacks)
    expect(counts.ok).toBeGreaterThanOrEqual(attackers.length)
    expect(counts).toMatchObject({ other: 0, tooLong: 0 })
    // Unbounded, one answer alone took this much at 515 TPS and ten times as much at 10,000.
    expect(peak - before).toBeLessThan(600 * mebibyte)
  })
})

/** One call at each of the other endpoints, with the token of the first start. */
async function askOthers(server: Server): Promise<void> {
  const headers = { 'x-token': server.token, 'content-type': 'application/json' }
  const body = '{"jsonrpc":"2.0","id":1,"method":"getSlot"}'
  const rpc = await sendFrom('127.0.0.1', server.url('rpc'), { method: 'POST', body, headers })
  expect(JSON.parse(rpc.body)).toMatchObject({ id: 1, result: expect.any(Number) })
  expect((await sendFrom('127.0.0.1', `${server.url('tpu')}/ping`)).status).toBe(200)
  const metrics = await sendFrom('127.0.0.1', `${server.url('metrics')}/v1/status`)
  expect(metrics.status).toBe(200)
  const socket = new WebSocket(server.url('websocket'), { headers })
  await new Promise((resolve, reject) => {
    socket.on('open', () => socket.ping())
    socket.on('pong', resolve)
    socket.on('error', reject)
  })
  socket.terminate()
}

function residentBytes({ child }: Server): number {
  const status = readFileSync(`/proc/${child.pid}/status`, 'utf8')
  return Number(/VmHWM:\s+(\d+)/.exec(status)?.[1]) * 1024
}
