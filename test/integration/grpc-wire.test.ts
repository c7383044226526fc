// The gRPC endpoint on the wire: sizes, resets, TLS, shutdown.
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { copyFileSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { connect, constants } from 'node:http2'
import { connect as netConnect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connect as tlsConnect } from 'node:tls'
import { credentials } from '@grpc/grpc-js'
import { afterEach, describe, expect, it } from 'vitest'
import { silentLog } from '../../src/base/telemetry/log.ts'
import { CertificatePair } from '../../src/base/transport/tls.ts'
import { call, callBytes, GrpcStage, Subscription, withToken } from '../testkit/grpc-stage.ts'
import { framed, RawStream, rawCall } from '../testkit/raw-grpc.ts'
import { SyntheticSolana } from '../testkit/synthetic-solana.ts'
import { until } from '../testkit/until.ts'

let stage: GrpcStage

afterEach(async () => {
  await stage.close()
})

const identity = (bytes: Buffer) => bytes
const slots = Buffer.from('12030a0161', 'hex')

describe('the wire', () => {
  it('refuses a message of 5 MiB and a byte, and takes one of 5 MiB', async () => {
    stage = await GrpcStage.open()
    const { token } = stage.provision()
    const client = stage.client()
    // An unknown field (100, bytes) fills the message without meaning anything.
    const filled = (size: number) => {
      const length = size - 6
      const groups = [length, length >>> 7, length >>> 14].map((group) => (group & 0x7f) | 0x80)
      return Buffer.concat([
        Buffer.from([0xa2, 0x06, ...groups, length >>> 21]),
        Buffer.alloc(length),
      ])
    }
    const path = '/geyser.Geyser/Ping'
    const mebibytes = 5 * 1024 * 1024
    const most = await callBytes(client, path, filled(mebibytes), withToken(token), identity)
    expect(most.code).toBe(0)
    const over = await callBytes(client, path, filled(mebibytes + 1), withToken(token), identity)
    expect(over.code).toBe(8)
  })

  it('stays up when a client resets in the middle, and ends streams when it stops', async () => {
    stage = await GrpcStage.open()
    const { token } = stage.provision()
    const session = connect(`http://${stage.target}`)
    const reset = session.request({
      ':method': 'POST',
      ':path': '/geyser.Geyser/Subscribe',
      'content-type': 'application/grpc',
      te: 'trailers',
      'x-token': token,
    })
    reset.on('error', () => {})
    reset.write(Buffer.from('0000000005', 'hex'))
    await until(async () => (await stage.meter('sluice_grpc_streams')) === 1, 'the stream')
    reset.close(constants.NGHTTP2_CANCEL)
    await until(async () => (await stage.meter('sluice_grpc_streams')) === 0, 'its end')
    session.close()
    const subscription = new Subscription(stage.client(), withToken(token))
    subscription.askBytes(slots)
    await until(async () => (await stage.meter('sluice_grpc_streams')) === 1, 'another stream')
    await stage.running.stop()
    await until(() => subscription.status !== null, 'a status')
    expect(subscription.status?.code).toBe(14)
  })
})

describe('bytes that are not gRPC', () => {
  it('do not disturb the endpoint', async () => {
    stage = await GrpcStage.open()
    const { token } = stage.provision()
    const noises = [
      Buffer.from('GET / HTTP/1.1\r\nhost: x\r\n\r\n'),
      Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'),
      Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nffffffffffffffffffffffffffffffff'),
      Buffer.alloc(5_000, 0xfe),
    ]
    for (const noise of noises) {
      const socket = netConnect(stage.running.address!.port, '127.0.0.1')
      socket.on('error', () => {})
      await new Promise((resolve) => socket.write(noise, resolve))
      await new Promise((resolve) => setImmediate(resolve))
      socket.destroy()
    }
    const wrongType = await rawCall(stage.target, {
      ':path': '/geyser.Geyser/GetVersion',
      'content-type': 'application/json',
    })
    expect(wrongType.headers[':status']).toBe(415)
    expect((await call(stage.client(), 'GetVersion', {}, withToken(token))).code).toBe(0)
  })
})

describe('TLS', () => {
  it('serves the certificate of the files, and a new one without a restart', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'sluice-grpc-tls-'))
    const certificate = (name: string) => {
      const [key, cert] = [join(folder, `${name}.key`), join(folder, `${name}.crt`)]
      const args = [
        ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'],
        ...['-keyout', key, '-out', cert, '-days', '2', '-subj', `/CN=${name}`],
        ...['-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1'],
      ]
      execFileSync('openssl', args, { stdio: 'ignore' })
      return { key, cert }
    }
    const [first, second] = [certificate('first'), certificate('second')]
    const files = { certPath: join(folder, 'cert.pem'), keyPath: join(folder, 'key.pem') }
    const install = ({ key, cert }: { key: string; cert: string }) => {
      copyFileSync(cert, files.certPath)
      copyFileSync(key, files.keyPath)
    }
    install(first)
    const certificates = new CertificatePair(files, silentLog)
    stage = await GrpcStage.open({ certificates })
    const { token } = stage.provision()
    expect(stage.running.address?.tls).toBe(true)
    const port = stage.running.address!.port
    const served = () =>
      new Promise<string>((resolve, reject) => {
        const socket = tlsConnect({ port, host: '127.0.0.1', rejectUnauthorized: false }, () => {
          resolve(socket.getPeerCertificate().subject.CN as string)
          socket.destroy()
        })
        socket.on('error', reject)
      })
    const secure = (cert: string) =>
      stage.client(stage.target, credentials.createSsl(readFileSync(cert)))
    const held = new Subscription(secure(first.cert), withToken(token))
    held.askBytes(slots)
    await held.settled()
    expect(await served()).toBe('first')
    install(second)
    certificates.check()
    expect(await served()).toBe('second')
    expect((await call(secure(second.cert), 'GetVersion', {}, withToken(token))).code).toBe(0)
    stage.publish(new SyntheticSolana().next())
    await until(() => held.of('slot').length > 0, 'updates on the old connection')
    // One that never begins its handshake does not hold up the end.
    const [silent, slow] = [netConnect(port, '127.0.0.1'), netConnect(port, '127.0.0.1')]
    await Promise.all([silent, slow].map((socket) => once(socket, 'connect')))
    await served()
    const stopped = stage.running.stop().then(() => true)
    // One that begins it now has a session that does not drain: nothing live would follow there.
    const session = connect(`https://127.0.0.1:${port}`, {
      createConnection: () =>
        tlsConnect({ socket: slow, ALPNProtocols: ['h2'], rejectUnauthorized: false }),
    })
    const amid = new RawStream(session, '/geyser.Geyser/Subscribe', { 'x-token': token })
    amid.stream.write(framed(slots))
    await until(() => amid.isClosed, 'its end')
    expect([amid.status, amid.details]).toEqual([14, 'the server is stopping'])
    session.close()
    // Node itself ends a handshake after two minutes.
    const late = new Promise<boolean>((resolve) => setTimeout(resolve, 60_000, false).unref())
    expect(await Promise.race([stopped, late])).toBe(true)
    silent.destroy()
    certificates.stop()
    rmSync(folder, { recursive: true })
  })
})
