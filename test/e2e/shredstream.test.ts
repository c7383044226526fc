// ShredStream end to end: the built server, its embedded chain, the command, a customer's socket.
import { createSocket, type Socket } from 'node:dgram'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { readPcap } from '../../src/base/transport/pcap.ts'
import { flawOf, flaws, indexOf, slotOf } from '../../src/chain/solana/shred.ts'
import { type Server, sluice, sluiceHere, startServer } from '../testkit/server.ts'
import { joinBatch } from '../testkit/shreds.ts'
import { until } from '../testkit/until.ts'

let server: Server
let socket: Socket
const folder = mkdtempSync(join(tmpdir(), 'sluice-shreds-'))

beforeAll(async () => {
  server = await startServer({ flags: ['--metrics.enabled=false'] })
  socket = createSocket('udp4')
  socket.bind(0, '127.0.0.1')
  await once(socket, 'listening')
})
afterAll(async () => {
  socket.close()
  await server.dispose()
  rmSync(folder, { recursive: true, force: true })
})

describe('ShredStream Raw', () => {
  test('sends the embedded chain’s shreds to a proven address; they carry its entries', async () => {
    const shreds: Buffer[] = []
    socket.on('message', (message, { address, port }) => {
      if (message.length === 40) socket.send(message, port, address)
      else shreds.push(message)
    })
    const address = `127.0.0.1:${socket.address().port}`
    const set = await sluiceHere(server.data, 'destination', 'set', 'demo', address)
    expect(set.code).toBe(0)
    const slots = () => [...new Set(shreds.map((shred) => slotOf(shred)))].sort((a, b) => a - b)
    const joined = (slot: number) => {
      const data = shreds.filter((shred) => shred.length === 1203 && slotOf(shred) === slot)
      return joinBatch(data.sort((a, b) => indexOf(a) - indexOf(b)))
    }
    // The first and the last one may be cut, and a process that does not read loses some.
    const whole = () =>
      slots()
        .slice(1, -1)
        .map(joined)
        .find((one) => one !== null)
    await until(() => whole() !== undefined, 'a whole slot of shreds')
    for (const shred of shreds) expect(flawOf(shred, 0, shred.length, 1)).toBe(flaws.none)
    const batch = Buffer.from(whole()!)
    expect(batch.readBigUInt64LE(0)).toBeGreaterThan(0n)
    const shown = await sluiceHere(server.data, 'destination', 'show', 'demo', '--output=json')
    expect(JSON.parse(shown.stdout).destination).toMatchObject({ address, state: 'active' })
  })

  test('sluice shreds reports rates, sources, destinations and slots', async () => {
    const asked = await sluiceHere(server.data, 'shreds', '--output=json')
    const report = JSON.parse(asked.stdout)
    expect(report.totals.accepted).toBeGreaterThan(0)
    expect(report.destinations[0]).toMatchObject({ label: 'demo', state: 'active' })
    expect(report.slots[0].data).toBeGreaterThan(0)
    expect((await sluiceHere(server.data, 'shreds')).stdout).toContain('SUBSCRIPTION')
  })

  test('sluice shreds listen proves an address by itself and writes a capture', async () => {
    const file = join(folder, 'kept.pcap')
    const words = ['shreds', 'listen', '0', '--for', 'demo', '--count', '64', '--pcap', file]
    const heard = await sluice(server.data, ...words, '--output=json')
    expect(heard.stdout).toContain('"challenge":"answered"')
    expect(JSON.parse(heard.stdout.trim().split('\n').at(-1)!)).toMatchObject({ flawed: 0 })
    expect(readPcap(readFileSync(file))!.length).toBeGreaterThanOrEqual(64)
    const replayed = await sluiceHere(server.data, 'shreds', 'replay', file, '--output=json')
    expect(JSON.parse(replayed.stdout)).toMatchObject({ failed: 0 })
    await until(async () => {
      const { stdout } = await sluiceHere(server.data, 'shreds', '--output=json')
      return JSON.parse(stdout).totals.duplicate >= 64
    }, 'the replayed shreds count as duplicates')
  })
})
