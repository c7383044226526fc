// A broken invariant while a client is served ends the process; any other error costs that client.
import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { hangMs } from '../testkit/until.ts'

const dist = fileURLToPath(new URL('../../dist/src/', import.meta.url))

/** Serves one gRPC stream whose handler throws, and prints the status that the client saw. */
const grpcScript = (thrown: string) => `
    import { connect } from 'node:http2'
    import { assert } from '${dist}base/errors.js'
    import { openGrpcEndpoint } from '${dist}base/transport/grpc.js'
    import { silentLog } from '${dist}base/telemetry/log.js'
    const endpoint = await openGrpcEndpoint({
      host: '127.0.0.1', port: 0, certificates: null, messageBytesMax: 1024, keepaliveMs: 30000,
      keepaliveTimeoutMs: 10000, clientAddress: (peer) => peer,
      connectionIdleMs: 60000, connectionsPerAddressMax: 10, isProxy: () => false,
      admit: () => ({ ok: true, caller: null, leave() {} }), log: silentLog,
      methods: [{ kind: 'stream', path: '/a/b', open: () => ({
        message() { ${thrown} }, halfClosed() {}, drained() {}, closed() {},
      }) }],
    })
    const session = connect('http://127.0.0.1:' + endpoint.address.port)
    session.on('error', () => {})
    const call = session.request({ ':method': 'POST', ':path': '/a/b',
      'content-type': 'application/grpc', te: 'trailers' })
    call.on('error', () => {})
    call.on('trailers', (trailers) => {
      console.log('status ' + trailers['grpc-status'])
      process.exit(0)
    })
    call.resume()
    call.write(Buffer.alloc(5))
  `

/** Serves HTTP requests whose handler throws, and prints the status that the client saw. */
const httpScript = (thrown: string) => `
    import { assert } from '${dist}base/errors.js'
    import { systemClock as clock } from '${dist}base/clock.js'
    import { openHttpEndpoint } from '${dist}base/transport/http-endpoint.js'
    import { ResponseHead } from '${dist}base/transport/reply.js'
    import { silentLog as log } from '${dist}base/telemetry/log.js'
    const endpoint = await openHttpEndpoint({
      product: 'test', listen: { host: '127.0.0.1', port: 0 }, tls: null, trustedProxies: [],
      clock, log,
      http: { admit: () => null, wants: [], inFlightPerAddressMax: 4,
        preflight: ResponseHead.of({ 'access-control-allow-origin': '*' }),
        routes: [{ verb: 'GET', path: '/', handle: async () => { await null; ${thrown} } }] },
    })
    const answer = await fetch('http://127.0.0.1:' + endpoint.address.port + '/')
    console.log('status ' + answer.status)
    process.exit(0)
  `

function run(script: string): Promise<{ code: number | null; output: string }> {
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: hangMs,
  })
  let output = ''
  for (const pipe of [child.stdout, child.stderr]) pipe.on('data', (bytes) => (output += bytes))
  return new Promise((resolve) => child.on('close', (code) => resolve({ code, output })))
}

for (const [name, scriptOf, status] of [
  ['a gRPC stream', grpcScript, 13],
  ['an HTTP request', httpScript, 500],
] as const)
  describe(`an error while ${name} is served`, () => {
    it('ends the process when an invariant is broken', async () => {
      const { code, output } = await run(scriptOf("assert(false, 'released twice')"))
      expect(output).toContain('invariant broken: released twice')
      expect(code).not.toBe(0)
      expect(output).not.toContain('status')
    })

    it('reaches only that client otherwise', async () => {
      const { code, output } = await run(scriptOf("throw new Error('an odd request')"))
      expect(output).toBe(`status ${status}\n`)
      expect(code).toBe(0)
    })
  })
