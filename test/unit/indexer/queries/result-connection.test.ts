// A result on its way to a gateway that does not read: its process knows when nothing waits in it.
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { ResultConnection } from '../../../../src/indexer/queries/result-connection.ts'
import { until } from '../../../testkit/until.ts'

const secret = 'ab'.repeat(32)
const ticket = 'cd'.repeat(16)
let folder: string
let reader: Socket | null
let received: number
const server = createServer((socket) => {
  reader = socket
  socket.once('data', () => {
    socket.write('\n')
    socket.pause()
    socket.on('data', (chunk) => {
      received += chunk.length
    })
    socket.pause()
  })
})

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-results-'))
  reader = null
  received = 0
  await new Promise<void>((done) => server.listen(join(folder, 's'), done))
})
afterEach(async () => {
  reader?.destroy()
  await new Promise((done) => server.close(done))
  rmSync(folder, { recursive: true, force: true })
})

/** Fills what the system holds between the two, until bytes wait in this process. */
async function filled() {
  const connection = await ResultConnection.open({ path: join(folder, 's'), secret })
  const sink = connection.sinkOf(ticket)
  let sent = 0
  let isWaiting = false
  while (!isWaiting) {
    const writing = sink.write(Buffer.alloc(8 * 1024))
    sent += 8 * 1024 + 20
    // Twice: after a stall the first timer is before the sockets.
    const pause = () => new Promise((resolve) => setTimeout(resolve, 50))
    isWaiting = await Promise.race([
      writing.then(() => false),
      pause()
        .then(pause)
        .then(() => true),
    ])
  }
  return { connection, sink, sent: () => sent }
}

test('is flushed when the reader has taken what waited', async () => {
  const { connection, sink, sent } = await filled()
  let isFlushed = false
  const flushed = sink.flushed().then(() => {
    isFlushed = true
  })
  await new Promise((resolve) => setTimeout(resolve, 50))
  expect(isFlushed).toBe(false)
  reader!.resume()
  await flushed
  connection.end()
  await until(() => received >= sent(), 'all bytes')
  await sink.flushed()
})

test('does not wait for a reader when its query is cancelled', async () => {
  const { connection, sink } = await filled()
  const flushed = sink.flushed()
  sink.wake()
  await flushed
  connection.end()
})
