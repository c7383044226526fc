// `sluice indexer serve`: the program that writes the index, on a machine of its own. It reads the
// feeds of the gateways with a credential of `sluice indexer enroll`, and writes to ClickHouse. Of
// several only the one with the writer lease writes; the others take over when it ends.
//
//   gateways: indexer.feeds ─► writer process ─► ClickHouse
//                                   └─ reports ─► log lines, /metrics on loopback
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync, statSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { hostname } from 'node:os'
import { isLoopback } from '../../base/cidr.ts'
import { systemClock } from '../../base/clock.ts'
import { accept, Fault, messageOf, type Outcome } from '../../base/errors.ts'
import type { Meters } from '../../base/telemetry/meters.ts'
import { type Call, flagOf, flagTable, misuse, numberOf, refusedFault, type Verb } from './verb.ts'
import { packageVersion } from './version.ts'

interface Gateway {
  readonly address: string
  readonly xToken: string
}

export const indexerServeVerb: Verb = {
  words: ['indexer', 'serve'],
  summary: 'Write the index of gateways elsewhere to a ClickHouse server.',
  examples: [
    'indexer serve --gateway gateway.internal:8124 --credential-file north.token ' +
      '--indexer.engine clickhouse --indexer.url http://clickhouse.internal:8123',
  ],
  takesConfig: true,
  flags: flagTable(`
  --gateway <host:port> ...  Feeds of a gateway: https, and http on loopback. Several are of one
                             cluster.
  --credential-file <file>   What sluice indexer enroll printed, readable by its owner alone.
  --metrics-port <port 0..65535>  Serve /metrics on this port of 127.0.0.1; 0 takes any free one.`),
  async run(call) {
    const { config } = call.loaded
    if (config.indexer.engine !== 'clickhouse')
      return misuse(
        'indexer.engine is duckdb, whose files only the gateway beside them can read: ' +
          'set indexer.engine to clickhouse, and indexer.url',
      )
    const gateways = gatewaysOf(call)
    if (!gateways.ok) return gateways
    const ended = Promise.race([once(process, 'SIGINT'), once(process, 'SIGTERM')])
    // On demand: other verbs of `indexer` do without.
    const { openLog } = await import('../../base/telemetry/open-log.ts')
    const { Meters } = await import('../../base/telemetry/meters.ts')
    const { IngestPipeline } = await import('../../indexer/ingest.ts')
    const { declareIngestMeters } = await import('../../indexer/meters.ts')
    const meters = new Meters()
    const port = numberOf(call, 'metrics-port', null)
    let served: Awaited<ReturnType<typeof serveMeters>> | null = null
    try {
      served = port === null ? null : await serveMeters(meters, port)
      const ingest = await IngestPipeline.start(config.indexer, {
        feeds: { gateways: gateways.value },
        folder: '',
        holder: `${hostname()} pid ${process.pid} run ${randomBytes(4).toString('hex')}`,
        meters: declareIngestMeters(meters),
        clock: systemClock,
        log: openLog(config.logLevel),
      })
      const at = served === null ? '' : `; meters at ${served.url}`
      const from = gateways.value.map(({ address }) => address).join(', ')
      process.stdout.write(`sluice ${packageVersion()} indexes ${from}${at}\n`)
      await ended
      await ingest.stop()
      return accept({ json: {}, text: '', isPrinted: true })
    } catch (error) {
      return refusedFault(error)
    } finally {
      served?.stop()
    }
  },
}

function gatewaysOf(call: Call): Outcome<readonly Gateway[]> {
  const texts = call.flags.get('gateway') ?? []
  if (texts.length === 0) return misuse('--gateway is missing: host:port of the feeds of a gateway')
  const credential = credentialOf(flagOf(call, 'credential-file'))
  if (!credential.ok) return credential
  const found: Gateway[] = []
  for (const text of texts) {
    const address = addressOf(text)
    if (address === null) return misuse('--gateway must be host:port, or a URL with a port')
    const { protocol, hostname: host } = address
    if (protocol === 'http:' && !isLoopback(host) && !call.loaded.config.allowPlaintext)
      return misuse(
        `--gateway ${address.origin} would send the credential in plain text: use https, ` +
          'or allowPlaintext when a tunnel encrypts it',
      )
    found.push({ address: address.origin, xToken: credential.value })
  }
  return accept(found)
}

/** Null for what has no host or no port. */
function addressOf(text: string): URL | null {
  const [, scheme, at = ''] = /^(?:(https?):\/\/)?([^\s/@?#]+:\d+)\/?$/.exec(text) ?? []
  if (!URL.canParse(`https://${at}`)) return null
  const { hostname: host } = new URL(`https://${at}`)
  return new URL(`${scheme ?? (isLoopback(host) ? 'http' : 'https')}://${at}`)
}

function credentialOf(path: string | undefined): Outcome<string> {
  if (path === undefined)
    return misuse('--credential-file is missing: npx --no -- sluice indexer enroll issues one')
  try {
    if ((statSync(path).mode & 0o077) !== 0)
      return misuse(`${path} can be read by others: chmod 600 ${path}`)
    const token = /slu_[0-9A-Za-z]{38}/.exec(readFileSync(path, 'utf8'))?.[0]
    return token === undefined ? misuse(`${path} contains no credential`) : accept(token)
  } catch (error) {
    return misuse(messageOf(error))
  }
}

async function serveMeters(meters: Meters, port: number) {
  const server = createServer(async ({ url }, response) => {
    const { contentType, body } = await meters.render('text')
    const isThere = url === '/metrics'
    response.writeHead(isThere ? 200 : 404, { 'content-type': contentType })
    response.end(isThere ? body : '')
  })
  server.listen(port, '127.0.0.1')
  await once(server, 'listening').catch((error: unknown) => {
    throw new Fault('port-taken', `--metrics-port: ${messageOf(error)}`)
  })
  const { port: bound } = server.address() as AddressInfo
  return { url: `http://127.0.0.1:${bound}/metrics`, stop: () => server.close() }
}
