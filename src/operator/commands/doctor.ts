// `sluice doctor`: checks whether the service can run well on this machine.
// Read-only. Exit 1 when a check fails; each failed check names what to do next.
import { createSocket } from 'node:dgram'
import { existsSync } from 'node:fs'
import { createServer } from 'node:net'
import { resolve } from 'node:path'
import { accept, messageOf } from '../../base/errors.ts'
import type { OperatorAnswer } from '../../base/transport/unix-socket.ts'
import { problemOfRegistry } from '../../customers/subscriptions/lock.ts'
import { type Endpoint, enabledEndpoints, setsWithoutGeyser } from '../config/config.ts'
import { type MemoryBounds, memoryBoundsOf } from '../topology/memory-bounds.ts'
import type { ServerStatus } from '../topology/service.ts'
import { type OpenEndpoints, readEndpoints } from './credentials.ts'
import { bad, type Check, good, machineChecks } from './machine-checks.ts'
import { tableOf } from './output.ts'
import { askServer, registryPath, withStore } from './registry.ts'
import { pushText } from './status.ts'
import type { Call, Verb } from './verb.ts'

/** A burst of shreds must fit between two reads of the receiving thread. */
const RECEIVE_BYTES_WANTED = 8 * 2 ** 20
const SEND_BYTES_WANTED = 4 * 2 ** 20

export const doctorVerb: Verb = {
  words: ['doctor'],
  summary: 'Check machine, ports, limits, certificate and registry; exit 1 if one fails.',
  examples: ['doctor', 'doctor --config sluice.yaml'],
  async run(call) {
    const { config } = call.loaded
    const answer = await askServer(config.data, 'status')
    const isRunning = answer.ok || answer.reason !== 'no-server'
    const running = isRunning ? readEndpoints(config.data) : {}
    const checks = [
      ...(await machineChecks(config)),
      ...(await Promise.all(
        enabledEndpoints(config).map((endpoint) =>
          checkEndpoint(endpoint, running, config.cluster.sharePorts),
        ),
      )),
      ...(await checkUdpBuffers()),
      ...setsWithoutGeyser(config).map((found) =>
        bad('geyser', 'warn', found, 'set it, or disable websocket and grpc'),
      ),
      await checkRegistry(call),
      checkServer(answer),
      ...checkNodes(answer),
      ...checkUsagePush(answer),
    ]
    // On demand: no other verb pays for loading the products.
    const { topology } = await import('../../topology.ts')
    const memory = memoryBoundsOf(topology, config)
    const rows = checks.map((check) => [check.state, check.name, check.found, check.next])
    const failed = checks.filter((check) => check.state === 'fail').length
    return accept({
      json: { ok: failed === 0, checks, memory },
      text: `${tableOf(['state', 'check', 'found', 'do next'], rows, '')}\n\n${memoryText(memory)}`,
      exit: failed === 0 ? 0 : 1,
    })
  },
}

/** What each component may take, and what no constant bounds. */
function memoryText({ bytes, rows, unbounded }: MemoryBounds): string {
  const size = (count: number) => `${Math.ceil(count / 2 ** 20)} MiB`
  const shown = rows.map((row) => [size(row.bytes), row.component, row.name])
  const all = [...shown, [size(bytes), 'all', '']]
  const table = tableOf(['memory at most', 'component', 'of'], all, '')
  return [table, 'Bounded by a count:', ...unbounded.map((one) => `  ${one}`)].join('\n')
}

/** `running`: the addresses of our server; null while it starts or stops. */
export async function checkEndpoint(
  endpoint: Endpoint,
  running: OpenEndpoints | null,
  sharesPorts: boolean,
): Promise<Check> {
  const own = running?.[endpoint.name]
  if (own !== undefined)
    return good(`port ${endpoint.name}`, `${own.host}:${own.port} is used by our server`)
  if (running === null) return checkPort(endpoint, 'is used, maybe by our server')
  const isShared = sharesPorts && !endpoint.udp
  return checkPort(endpoint, isShared ? 'is used, maybe by another gateway' : null)
}

/** Checks that a port is free; `whenUsed` is what is found where one in use is no failure. */
export async function checkPort(endpoint: Endpoint, whenUsed: string | null): Promise<Check> {
  const name = `port ${endpoint.name}`
  const address = `${endpoint.udp ? 'udp ' : ''}${endpoint.host}:${endpoint.port}`
  if (endpoint.port === 0) return good(name, 'any free port')
  const problem = await (endpoint.udp ? tryUdp(endpoint) : tryTcp(endpoint))
  if (problem === null) return good(name, `${address} is free`)
  if (problem === 'EADDRINUSE' && whenUsed !== null) return good(name, `${address} ${whenUsed}`)
  const list = `ss -lnp${endpoint.udp ? 'u' : 't'} 'sport = :${endpoint.port}'`
  const next: Readonly<Record<string, string>> = {
    EADDRINUSE: `${list} shows which process uses it; stop that or set ${endpoint.name}.port`,
    EADDRNOTAVAIL: `set ${endpoint.name}.host to an address of this machine`,
    EACCES: `set ${endpoint.name}.port to 1024 or more`,
  }
  const found = problem === 'EADDRINUSE' ? 'is taken by another process' : problem
  return bad(name, 'fail', `${address} ${found}`, next[problem] ?? `set ${endpoint.name}.host`)
}

/** The error code of listening there; null when it works. */
function tryTcp({ host, port }: Endpoint): Promise<string | null> {
  return new Promise((done) => {
    const server = createServer()
    server.once('error', (error: NodeJS.ErrnoException) => done(error.code ?? error.message))
    server.listen({ host, port, exclusive: true }, () => server.close(() => done(null)))
  })
}

function tryUdp({ host, port }: Endpoint): Promise<string | null> {
  return new Promise((done) => {
    const socket = createSocket(host.includes(':') ? 'udp6' : 'udp4')
    socket.once('error', (error: NodeJS.ErrnoException) => {
      socket.close()
      done(error.code ?? error.message)
    })
    socket.bind({ address: host, port, exclusive: true }, () => socket.close(() => done(null)))
  })
}

/** Requests the socket buffers of the shred pipeline and checks what the kernel granted. */
function checkUdpBuffers(): Promise<Check[]> {
  return new Promise((done) => {
    const socket = createSocket('udp4')
    socket.once('error', (error) => {
      socket.close()
      done([bad('udp buffers', 'fail', error.message, 'allow UDP sockets on loopback')])
    })
    socket.bind({ address: '127.0.0.1', port: 0 }, () => {
      socket.setRecvBufferSize(RECEIVE_BYTES_WANTED)
      socket.setSendBufferSize(SEND_BYTES_WANTED)
      // Linux reports twice the granted size: the figure includes its own overhead.
      const receive = socket.getRecvBufferSize() / 2
      const send = socket.getSendBufferSize() / 2
      socket.close()
      done([
        bufferCheck('udp receive buffer', receive, RECEIVE_BYTES_WANTED, 'net.core.rmem_max'),
        bufferCheck('udp send buffer', send, SEND_BYTES_WANTED, 'net.core.wmem_max'),
      ])
    })
  })
}

function bufferCheck(name: string, granted: number, wanted: number, key: string): Check {
  const found = `${granted} of ${wanted} bytes`
  if (granted >= wanted) return good(name, found)
  return bad(name, 'warn', found, `run sysctl -w ${key}=${wanted} before the start`)
}

function checkServer(answer: OperatorAnswer): Check {
  if (answer.ok) return good('server', 'running')
  if (answer.reason === 'no-server') return good('server', 'stopped')
  return bad('server', 'warn', answer.message, 'retry; if this persists, see its log')
}

/** Of a row of the server's node table; an older server sends less. */
interface NodeRow {
  readonly name?: string
  readonly state?: string
  readonly reason?: string
  readonly genesis?: string | null
  readonly slot?: number | null
}

/** Nodes that the running server keeps out or does not stream from, each with its reason. */
export function checkNodes(answer: OperatorAnswer): Check[] {
  if (!answer.ok) return []
  const { upstreams = [] } = answer.value as { upstreams?: readonly NodeRow[] }
  return upstreams.flatMap(({ name, state = '', genesis, slot, reason = '' }) => {
    const problem = (level: 'warn' | 'fail', found: string, next: string) =>
      bad(`node ${name}`, level, found, next)
    const [set, number] = `${name}`.split('/')
    switch (state) {
      case 'foreign':
        return problem(
          'fail',
          `is on another chain: genesis hash ${genesis}`,
          'correct its address, or set the genesis hash of its set in upstreams.<set>.genesis',
        )
      case 'ahead':
        return problem(
          'fail',
          `reports slot ${slot}, far above what its set can have reached`,
          'check its address; a third node decides who is right',
        )
      case 'distrusted':
        return problem('fail', reason, 'check the node and its address; a third node decides')
      case 'drained':
        return problem(
          'warn',
          `is drained ${reason}`,
          `run npx --no -- sluice node resume ${set} ${number}`,
        )
      default:
        if (reason === '' || state === 'down') return []
        return problem('warn', `${state}: ${reason}`, 'check the node and its addresses')
    }
  })
}

/** Whether the receivers of usage and notices take them; nothing where the server pushes none. */
export function checkUsagePush(answer: OperatorAnswer): Check[] {
  const pushed = (answer.ok ? answer.value : {}) as Pick<ServerStatus, 'usagePush' | 'notices'>
  return [...checkNotices(pushed), ...checkUsage(pushed)]
}

function checkNotices({ notices }: Pick<ServerStatus, 'notices'>): Check[] {
  if (notices === undefined) return []
  const found = pushText(notices)
  if (notices.problem == null) return [good('webhooks', found)]
  return [bad('webhooks', 'warn', found, 'check the receiver and webhooks.url')]
}

function checkUsage({ usagePush: push }: Pick<ServerStatus, 'usagePush'>): Check[] {
  if (push === undefined) return []
  const found = pushText(push)
  if (push.lostRows) {
    const next = 'take the rest of the bill from npx --no -- sluice usage; raise usage.push.rowsMax'
    return [bad('usage push', 'fail', found, next)]
  }
  if (push.problem == null) return [good('usage push', found)]
  return [bad('usage push', 'warn', found, 'check the receiver, usage.push.url or usage.push.file')]
}

async function checkRegistry(call: Call): Promise<Check> {
  const path = registryPath(call.loaded.config)
  if (!existsSync(path)) return good('registry', 'none yet')
  try {
    const data = resolve(call.loaded.config.data)
    const warnings: string[] = []
    const report = await withStore({ ...call, warn: (text) => void warnings.push(text) }, (store) =>
      accept({ ...store.verifyAudit(), older: problemOfRegistry(data, store) }),
    )
    if (!report.ok)
      return bad('registry', 'fail', report.refusal.message, 'see npx --no -- sluice audit verify')
    const { older } = report.value
    if (older !== null) return bad('registry', 'fail', older, 'see Backup in docs/OPERATING.md')
    const away = 'see SluiceClusterAway and SluiceClusterForked in docs/OPERATING.md'
    if (report.value.ok && warnings.length > 0) return bad('registry', 'fail', warnings[0]!, away)
    if (report.value.ok) return good('registry', `chain intact, entries: ${report.value.entries}`)
    const next = 'keep the folder unchanged and restore the last backup to another folder'
    return bad('registry', 'fail', report.value.problem, next)
  } catch (error) {
    return bad(
      'registry',
      'fail',
      messageOf(error),
      `check that ${path} belongs to this user and is not damaged`,
    )
  }
}
