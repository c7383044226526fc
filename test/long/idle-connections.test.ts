// How long idle HTTP connections stay open: as long as `Keep-Alive` says, whatever the phase of the
// native server's timer.
import { connect } from 'node:net'
import { expect, test } from 'vitest'
import { systemClock } from '../../src/base/clock.ts'
import { silentLog } from '../../src/base/telemetry/log.ts'
import { openHttpEndpoint } from '../../src/base/transport/http-endpoint.ts'
import { jsonHead, Reply } from '../../src/base/transport/reply.ts'
import { until } from '../testkit/until.ts'

const get = 'GET / HTTP/1.1\r\nhost: a\r\n\r\n'

test('an idle connection stays open for as long as its answer says', async () => {
  const endpoint = await openHttpEndpoint<null>({
    product: 'test',
    listen: { host: '127.0.0.1', port: 0 },
    tls: null,
    trustedProxies: [],
    clock: systemClock,
    log: silentLog,
    http: {
      admit: () => null,
      routes: [{ verb: 'GET', path: '/', handle: () => new Reply(200, jsonHead, 'answer') }],
    },
  })
  const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))
  /** Answers of a connection that was idle between two requests. */
  const answersAfterIdling = async () => {
    const socket = connect(endpoint.address.port, '127.0.0.1')
    let text = ''
    socket.on('data', (data) => {
      text += data
    })
    socket.write(get)
    await until(() => text.endsWith('answer'), 'the first answer')
    await pause(1_000 * Number(text.match(/keep-alive: timeout=(\d+)/)?.[1]))
    socket.write(get)
    await until(() => socket.closed || text.match(/answer/g)?.length === 2, 'the second answer')
    socket.destroy()
    return text.match(/answer/g)?.length
  }
  // The native timer ticks every 4 s.
  const phases = [0, 1_000, 2_000, 3_000].map((ms) => pause(ms).then(answersAfterIdling))
  expect(await Promise.all(phases)).toEqual([2, 2, 2, 2])
  await endpoint.stop()
})
