// Opens three HTTP endpoints in a process with few descriptors; prints their ports.
// Argument: connections that one address may have to each.
import { systemClock } from '../../dist/src/base/clock.js'
import { silentLog } from '../../dist/src/base/telemetry/log.js'
import { openHttpEndpoint } from '../../dist/src/base/transport/http-endpoint.js'
import { jsonHead, Reply } from '../../dist/src/base/transport/reply.js'

const open = () =>
  openHttpEndpoint({
    product: 'test',
    listen: { host: '127.0.0.1', port: 0 },
    tls: null,
    trustedProxies: [],
    connectionsPerAddressMax: Number(process.argv[2]),
    clock: systemClock,
    log: silentLog,
    http: {
      admit: () => null,
      routes: [{ verb: 'GET', path: '/', handle: () => new Reply(200, jsonHead, '"served"') }],
    },
  })
const endpoints = [await open(), await open(), await open()]
console.log(JSON.stringify(endpoints.map(({ address }) => address.port)))
