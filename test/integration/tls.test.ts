// TLS on the endpoints: by configuration, and with a certificate that changes while they run.
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connect, type TLSSocket } from 'node:tls'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { WebSocket } from 'ws'
import { silentLog } from '../../src/base/telemetry/log.ts'
import { CertificatePair } from '../../src/base/transport/tls.ts'
import { Bundle } from '../testkit/bundle.ts'
import { copyPair, hasOpenssl, makePair, type PairFiles } from '../testkit/certificates.ts'
import { until } from '../testkit/until.ts'

let bundle: Bundle
let folder = ''
let first: PairFiles
let second: PairFiles
let used: PairFiles
let pair: CertificatePair
let rpcPort = 0
let websocketPort = 0
let token = ''

beforeAll(async () => {
  if (!hasOpenssl) return
  folder = mkdtempSync(join(tmpdir(), 'sluice-tls-'))
  first = makePair(folder, 'first')
  second = makePair(folder, 'second')
  used = { certPath: join(folder, 'used.crt'), keyPath: join(folder, 'used.key') }
  copyPair(first, used)
  pair = new CertificatePair(used, silentLog)
  bundle = new Bundle()
  rpcPort = (await bundle.openRpc({ tls: pair })).port
  websocketPort = (await bundle.openWebsocket({ tls: pair })).port
  token = bundle.issue().token
})

afterAll(async () => {
  await bundle?.dispose()
  pair?.stop()
  if (folder !== '') rmSync(folder, { recursive: true, force: true })
})

/** Opens a TLS connection and returns the subject of the server's certificate. */
async function greet(port: number): Promise<{ socket: TLSSocket; name: string }> {
  const socket = connect({ host: '127.0.0.1', port, rejectUnauthorized: false })
  socket.on('error', () => {})
  await once(socket, 'secureConnect')
  return { socket, name: String(socket.getPeerCertificate().subject.CN) }
}

async function nameOf(port: number): Promise<string> {
  const { socket, name } = await greet(port)
  socket.destroy()
  return name
}

async function health(socket: TLSSocket): Promise<string> {
  const body = '{"jsonrpc":"2.0","id":1,"method":"getHealth"}'
  socket.write(
    `POST / HTTP/1.1\r\nhost: a\r\nx-token: ${token}\r\ncontent-type: application/json\r\n` +
      `content-length: ${body.length}\r\n\r\n${body}`,
  )
  const [data] = (await once(socket, 'data')) as [Buffer]
  return data.toString()
}

async function openSocket(): Promise<WebSocket> {
  const socket = new WebSocket(`wss://127.0.0.1:${websocketPort}`, {
    headers: { 'x-token': token },
    rejectUnauthorized: false,
  })
  await once(socket, 'open')
  return socket
}

async function version(socket: WebSocket): Promise<unknown> {
  socket.send('{"jsonrpc":"2.0","id":1,"method":"getVersion"}')
  const [data] = (await once(socket, 'message')) as [Buffer]
  return JSON.parse(data.toString()).result
}

describe.skipIf(!hasOpenssl)('TLS', () => {
  it('serves rpc and websocket with the configured certificate', async () => {
    const { socket, name } = await greet(rpcPort)
    expect(name).toBe('first')
    expect(await health(socket)).toContain('"result":"ok"')
    socket.destroy()
    const stream = await openSocket()
    expect(await version(stream)).toBeDefined()
    stream.close()
  })

  it('keeps the old pair when the new files do not match', async () => {
    writeFileSync(used.certPath, 'no certificate')
    pair.check()
    expect(await nameOf(rpcPort)).toBe('first')
    copyPair({ certPath: second.certPath, keyPath: first.keyPath }, used)
    pair.check()
    expect(await nameOf(rpcPort)).toBe('first')
  })

  it('presents a changed certificate to new connections and keeps the open ones', async () => {
    const keptHttp = await greet(rpcPort)
    const keptStream = await openSocket()
    let handshakes = 0
    let failures = 0
    let isSwapping = true
    const storm = (async () => {
      while (isSwapping) {
        await nameOf(rpcPort).then(
          () => handshakes++,
          () => failures++,
        )
      }
    })()
    copyPair(second, used)
    const shows = (port: number, name: string) =>
      nameOf(port).then(
        (is) => is === name,
        () => false,
      )
    await until(
      async () => (await shows(rpcPort, 'second')) && (await shows(websocketPort, 'second')),
      'the new certificate',
    )
    const names = await Promise.all(Array.from({ length: 20 }, () => nameOf(rpcPort)))
    isSwapping = false
    await storm
    expect(new Set(names)).toEqual(new Set(['second']))
    // The one connection that may wait in the old listener's queue when it closes is reset.
    expect([failures <= 1, handshakes > 0]).toEqual([true, true])
    expect(await version(keptStream)).toBeDefined()
    expect(await health(keptHttp.socket)).toContain('"result":"ok"')
    keptHttp.socket.destroy()
    const fresh = await openSocket()
    expect(await version(fresh)).toBeDefined()
    for (const socket of [keptStream, fresh]) socket.close()
  })

  it('names the file at fault', () => {
    const missing = { certPath: join(folder, 'missing.crt'), keyPath: first.keyPath }
    expect(() => new CertificatePair(missing, silentLog)).toThrow(/tls\.cert: cannot read/)
    const mixed = { certPath: first.certPath, keyPath: second.keyPath }
    expect(() => new CertificatePair(mixed, silentLog)).toThrow(/do not match/)
  })
})
