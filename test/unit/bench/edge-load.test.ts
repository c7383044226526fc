// The native client of the bench `edge`: what it takes for a right answer, and that it ends.
import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { setImmediate as turn } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import type { EdgeBytes } from '../../../bench/lib/edge-line.ts'
import { type LoadCounts, startEdgeLoad } from '../../../bench/lib/edge-load.ts'
import { compilerMissing } from '../../../bench/lib/native.ts'
import { until } from '../../testkit/until.ts'

type Script = readonly (string | Uint8Array)[]

const opening = Buffer.from('opening')
const request = Buffer.from('request')
const upgraded = 'HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\n\r\n'
const chunked = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n'
const big = 'x'.repeat(300_000)
const settings = http2(4, 0, Buffer.alloc(6))

function text(payload: string): Buffer {
  const length = payload.length
  const head = length < 126 ? [0x81, length] : [0x81, 126, length >> 8, length & 255]
  return Buffer.concat([Buffer.from(head), Buffer.from(payload)])
}

function http2(type: number, flags: number, payload: Uint8Array): Buffer {
  const head = Buffer.alloc(9)
  head.writeUIntBE(payload.length, 0, 3)
  head[3] = type
  head[4] = flags
  return Buffer.concat([head, payload])
}

/** Each answers the opening, where there is one, and the request; `close` ends the connection. */
const scripts: readonly [EdgeBytes['protocol'], string, string, Script][] = [
  ['http', 'a body of a told length', 'right', ['HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok']],
  ['http', 'chunks', 'right', [`${chunked}2\r\nok\r\n493e0\r\n${big}\r\n0\r\n\r\n`]],
  ['http', 'another status', '429', ['HTTP/1.1 429 No\r\ncontent-length: 2\r\n\r\nno']],
  ['http', 'a body cut short', 'wrong', ['HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\no', 'close']],
  ['http', 'no last chunk', 'wrong', [`${chunked}2\r\nok\r\n`, 'close']],
  ['http', 'no length', 'wrong', ['HTTP/1.1 200 OK\r\n\r\nok']],
  ['http', 'no answer', 'wrong', ['close']],
  ['websocket', 'a result', 'right', [upgraded, text(`{"result":"${'v'.repeat(200)}"}`)]],
  ['websocket', 'another status', '401', ['HTTP/1.1 401 No\r\ncontent-length: 0\r\n\r\n']],
  ['websocket', 'a status of no upgrade', 'wrong', ['HTTP/1.1 200 OK\r\n\r\n']],
  ['websocket', 'an error', 'wrong', [upgraded, text('{"error":{}}')]],
  ['websocket', 'a closed connection', 'closed', ['close']],
  [
    'grpc',
    'a message and trailers',
    'right',
    [settings, http2(0, 0, request), http2(1, 5, opening)],
  ],
  ['grpc', 'trailers alone', 'wrong', [settings, http2(1, 5, opening)]],
  ['grpc', 'a closed connection', 'closed', ['close']],
  ['grpc', 'a stream that is reset', 'wrong', [settings, http2(3, 0, Buffer.alloc(4))]],
]

/** By bytes where it is short: what is read at once is by chance. */
async function play(socket: Socket, script: Script): Promise<void> {
  for (const part of script) {
    if (part === 'close') return void socket.end()
    const bytes = Buffer.from(part)
    const step = bytes.length < 1_000 ? 1 : 60_000
    for (let at = 0; at < bytes.length; at += step) {
      socket.write(bytes.subarray(at, at + step))
      await turn()
    }
  }
}

function madeOf({ due, late, full } = { due: 0, late: 0, full: 0 }): number {
  return due - late - full
}

describe.skipIf((await compilerMissing()) !== undefined)('the native client of edge', () => {
  test.each(scripts)('counts of %s %s as %s', async (protocol, _, outcome, script) => {
    const server = createServer({ noDelay: true }, (socket) => {
      socket.on('error', () => {})
      socket.once('data', () => void play(socket, script))
    })
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    const target = {
      port,
      protocol,
      opening: protocol === 'http' ? Buffer.alloc(0) : opening,
      request,
    }
    let counts: LoadCounts | undefined
    const onCounts = (told: LoadCounts) => {
      counts = told
    }
    const end = await startEdgeLoad({ mode: 'renew', words: [100], targets: [target], onCounts })
    await until(() => madeOf(counts) > 0, 'a connection')
    await end()
    server.close()
    const { asked, wrong, refused } = counts!
    const made = madeOf(counts)
    const told = outcome === 'right' ? {} : { [outcome]: made }
    expect({ ...(wrong > 0 && { wrong }), ...refused }).toEqual(told)
    if (outcome === 'right') expect(asked).toBe(made)
  })
})
