// A thousand clients that leave and resume at random for a minute, and one that never reads.
import { expect, test } from 'vitest'
import { Listener, openService } from '../testkit/metrics-service.ts'
import { checkStorm, StormClient } from '../testkit/resume-storm.ts'
import { spanMs } from '../testkit/slice.ts'
import { hangMs, until } from '../testkit/until.ts'

const clientCount = 1000
const stormMs = spanMs(60_000, 20_000)
/** How long a client stays at a time, on average. */
const stayMs = spanMs(8_000, 3_500)
const blockMs = 400
/** Within the 60 s after which a silent peer is cut without a word. */
const stallMs = spanMs(20_000, 8_000)

test('1,000 clients resume for a minute without gap or repetition, beside one that stalls', async () => {
  const service = await openService({
    section: { connectionsPerAddress: 0 },
    // All clients come from one address.
    addressLimits: { workMsPerSecond: 0 },
    // The kernel alone takes minutes of this stream: the bound is lowered and the frames are padded.
    deps: { limits: { unsentBytesMax: 512 * 1024, slowMsMax: 10_000 } },
  })
  const { execution, events } = service
  for (let number = 1; number <= 5; number++) execution.run(number)
  const cursor = events.newestSeq
  const options = { url: service.ws, clients: clientCount, stayMs, cursor, run: 'run-1' }
  const clients: StormClient[] = []

  let number = 6
  const feed = setInterval(() => execution.run(number++, { padBytes: 8000 }), blockMs)
  // They come in groups, as after the restart of a fleet, and not all in one turn.
  for (let index = 0; index < clientCount; index++) {
    clients.push(new StormClient(index, options))
    if (index % 50 === 49) await new Promise((resolve) => setTimeout(resolve, 50))
  }
  const endMs = performance.now() + stormMs
  await until(() => performance.now() > endMs - stallMs, 'the stall', stormMs + hangMs)
  const stalled = new Listener(`${service.ws}/v1/ws`)
  await stalled.has(1)
  stalled.socket.pause()
  await until(() => performance.now() > endMs, 'the storm to pass', stormMs + hangMs)
  clearInterval(feed)
  for (const client of clients) client.settle()

  const due = new Map([...events.after(cursor)].map(({ seq, kind }) => [seq, kind]))
  expect(due.size).toBeGreaterThan(stormMs / 120)
  expect(await checkStorm(clients, due, 60_000)).toBeNull()
  const total = (read: (client: StormClient) => number) =>
    clients.reduce((sum, client) => sum + read(client), 0)
  expect(total(({ resumes }) => resumes)).toBeGreaterThan(3 * clientCount)
  expect(total(({ snapshots }) => snapshots)).toBe(0)
  for (const client of clients) client.end()

  // The kernel buffers some megabytes for the stalled one: more is pushed until it lags.
  await until(async () => {
    for (let count = 0; count < 20; count++) execution.run(number++, { padBytes: 60_000 })
    const body = await (await fetch(`${service.origin}/metrics`)).text()
    return !body.includes('sluice_ws_slow_cuts_total 0')
  }, 'the stalled client to be cut')
  stalled.socket.resume()
  await until(() => stalled.closed !== null, 'its close frame')
  expect(stalled.closed).toBe(1013)
  await service.running.stop()
})
