// Two gateways on the same ports, and what else may listen there.
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { connect } from 'node:http2'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { hasOpenssl, makePair } from '../testkit/certificates.ts'
import { rawCall } from '../testkit/raw-grpc.ts'
import { type Server, startServer } from '../testkit/server.ts'

const unused = ['websocket', 'shredstream', 'indexer'].map((name) => `--${name}.enabled=false`)
const shared = ['--cluster.sharePorts=true', ...unused]

let first: Server
let second: Server

beforeAll(async () => {
  first = await startServer({ flags: shared })
  second = await startServer({ flags: [...shared, ...portsOf(first)] })
})

afterAll(async () => {
  await first?.dispose()
  await second?.dispose()
})

const portsOf = (server: Server) =>
  Object.entries(server.doors).map(([name, { port }]) => `--${name}.port=${port}`)

/** How many of 40 connections reach the first gateway, which alone knows this token. */
async function reached(call: () => Promise<boolean>): Promise<number> {
  let count = 0
  for (let at = 0; at < 40; at++) if (await call()) count += 1
  return count
}

async function callRpc(): Promise<boolean> {
  const { status } = await fetch(first.url('rpc'), {
    method: 'POST',
    headers: {
      'x-token': first.token,
      'content-type': 'application/json',
      // A connection of its own.
      connection: 'close',
    },
    body: '{"jsonrpc":"2.0","id":1,"method":"getHealth"}',
  })
  return status === 200
}

async function callGrpc(): Promise<boolean> {
  const { host, port } = first.doors.grpc!
  const { headers, trailers } = await rawCall(`${host}:${port}`, {
    ':path': '/geyser.Geyser/GetVersion',
    'x-token': first.token,
  })
  return (trailers['grpc-status'] ?? headers['grpc-status']) === '0'
}

it('spreads HTTP and gRPC connections over the gateways', async () => {
  expect(second.doors.rpc!.port).toBe(first.doors.rpc!.port)
  // Each of 40 falls to either with the same odds: outside of these bounds once in a million.
  for (const count of [await reached(callRpc), await reached(callGrpc)]) {
    expect(count).toBeGreaterThan(4)
    expect(count).toBeLessThan(36)
  }
})

it.skipIf(!hasOpenssl)('spreads gRPC connections with TLS over the gateways', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-shared-tls-'))
  const { certPath, keyPath } = makePair(folder, 'shared')
  const others = ['rpc', 'metrics', 'tpu'].map((name) => `--${name}.enabled=false`)
  const flags = [...shared, ...others, `--tls.cert=${certPath}`, `--tls.key=${keyPath}`]
  const one = await startServer({ flags })
  const other = await startServer({ flags: [...flags, ...portsOf(one)] })
  const { host, port } = one.doors.grpc!
  const call = async () => {
    const session = connect(`https://${host}:${port}`, { ca: readFileSync(certPath) })
    const stream = session.request({
      ':method': 'POST',
      ':path': '/geyser.Geyser/GetVersion',
      'content-type': 'application/grpc',
      te: 'trailers',
      'x-token': one.token,
    })
    let status: unknown
    for (const event of ['response', 'trailers'] as const)
      stream.on(event, (headers) => {
        status = headers['grpc-status'] ?? status
      })
    stream.resume().end(Buffer.alloc(5))
    await once(stream, 'close')
    session.close()
    return status === '0'
  }
  const count = await reached(call)
  expect(count).toBeGreaterThan(4)
  expect(count).toBeLessThan(36)
  await one.dispose()
  await other.dispose()
  rmSync(folder, { recursive: true })
})

it('refuses a server that does not share its ports', async () => {
  const alone = startServer({ flags: [...unused, ...portsOf(first)] })
  await expect(alone).rejects.toThrow(/ports cannot be used/)
})

it('names the port that a process without SO_REUSEPORT has', async () => {
  const other = createServer()
  await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve))
  const { port } = other.address() as { port: number }
  const closed = ['rpc', 'metrics', 'tpu', 'grpc'].map((name) => `--${name}.enabled=false`)
  for (const name of ['rpc', 'grpc']) {
    const rest = closed.filter((flag) => !flag.startsWith(`--${name}.`))
    const start = startServer({ flags: [...shared, ...rest, `--${name}.port=${port}`] })
    const advice = `${name}: 127.0.0.1:${port} is taken by another process; stop it or set`
    await expect(start).rejects.toThrow(advice)
  }
  other.close()
})

it('leaves all connections to the gateway that is left', async () => {
  await second.stop('SIGKILL')
  expect(await reached(callRpc)).toBe(40)
  expect(await reached(callGrpc)).toBe(40)
})
