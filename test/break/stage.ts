// The whole service as processes of its own, for a run that breaks it: two gateways of a cluster over
// a PostgreSQL with a synchronous standby (one gateway alone where no PostgreSQL is installed), in
// front of four nodes of one chain, every link between them a relay that can be cut. The last gateway
// has TLS at its endpoints. Where
// ClickHouse is installed, two indexers write the index that gateway 1 answers from.
//
//   clients ─► gateway 0 ─┬─ relays ─► devnode --nodes 4 (honest, 2 that lag, 1 that lies)
//           └► gateway 1 ─┤                 └─ shreds by UDP ─► both gateways ─► a destination
//                         ├─ relays ─► PostgreSQL, its standby
//              2 indexers ┴─ relay ──► ClickHouse ◄─ gateway 1
import { createSocket, type Socket } from 'node:dgram'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Keypair } from '@solana/web3.js'
import { fillEvents } from '../cluster/event-fill.ts'
import { seed as seedRegistry } from '../cluster/gateway-stage.ts'
import { type Postgres, postgresMissing, startPostgres } from '../cluster/postgres.ts'
import { type Standby, startStandby, waitForStandby } from '../cluster/standby.ts'
import { hasOpenssl } from '../testkit/certificates.ts'
import { addressesOf } from '../testkit/cluster-box.ts'
import { CutNode } from '../testkit/cut-node.ts'
import { type Devnode, startDevnode } from '../testkit/devnode.ts'
import type { Credentials } from '../testkit/every-endpoint.ts'
import { freePort } from '../testkit/free-port.ts'
import { apiSocket, callApi } from '../testkit/operator-api.ts'
import { plainUser } from '../testkit/read-only.ts'
import { type Provisioned, type Server, startServer } from '../testkit/server.ts'
import { canMount, mountSmallDisk, type SmallDisk } from '../testkit/small-disk.ts'
import { SolanaNode } from '../testkit/solana-node.ts'
import { TcpCut } from '../testkit/tcp-cut.ts'
import { until } from '../testkit/until.ts'
import { Certificates } from './certificates.ts'
import { IndexServer } from './index-server.ts'
import { preload } from './preload.ts'

export const slotMs = 400
/** Of the devnode's nodes; the last one lies. */
const boxNodes = 4
const diskSize = '1g'
/** Minutes of the stream: a tenth of that disk would be one. */
const streamBytes = 400 * 1024 * 1024
/** Full within the warm-up: what a process has after it is what it may have at the end. */
const memoryBounds = { cacheBytes: 4e6, streamAnswerBytes: 4e6, streamHistoryBytes: 16e6 }
const startsMax = 10
const provisionMs = 60_000
export const tipAccount = Keypair.generate().publicKey.toBase58()
// Clients of this process take any certificate; the indexers check them.
process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0'

/** A process of the service, by what it does. */
export interface ServiceProcess {
  readonly name: string
  readonly pid: number
}

interface GatewayLinks
  extends Pick<Gateway, 'nodes' | 'database' | 'disk' | 'feedPort' | 'certificates'> {
  readonly index: IndexServer | null
}

export class Gateway {
  readonly number: number
  /** Its links to the nodes: the honest one twice, those that lag, the one that lies. */
  readonly nodes: readonly CutNode[]
  /** Its links to the two PostgreSQL servers. */
  readonly database: readonly TcpCut[]
  /** Of the feeds that indexers read: the same after each start. */
  readonly feedPort: number
  readonly disk: SmallDisk | null
  /** Null where its endpoints have no TLS. */
  readonly certificates: Certificates | null
  readonly data: string
  readonly #folder: string
  /** Null where its index is that of DuckDB. */
  readonly #index: IndexServer | null
  #server: Server | null = null
  /** Times of kill -9, monotonic. */
  readonly killedMs: number[] = []
  #isKilled = false
  /** Ends that nobody asked for, with the last lines of the log. */
  readonly deaths: string[] = []
  readonly failedStarts: string[] = []
  /** Of the operator API. */
  lastRefusal = ''

  constructor(number: number, folder: string, links: GatewayLinks) {
    this.number = number
    this.#folder = folder
    this.nodes = links.nodes
    this.database = links.database
    this.feedPort = links.feedPort
    this.#index = links.index
    this.disk = links.disk
    this.certificates = links.certificates
    this.data = links.disk?.path ?? join(folder, `gateway-${number}`)
    writeFileSync(this.configFile, JSON.stringify(this.#config()))
    this.control({})
  }

  get server(): Server {
    return this.#server!
  }

  get configFile(): string {
    return join(this.#folder, `gateway-${this.number}.yaml`)
  }

  get usageFile(): string {
    return join(this.#folder, `usage-${this.number}.ndjson`)
  }

  get isRunning(): boolean {
    const child = this.#server?.child
    return child !== undefined && child.exitCode === null && child.signalCode === null
  }

  get hasDied(): boolean {
    return this.deaths.length > 0
  }

  /** What the preload does in its processes from now on. */
  control(state: {
    readonly shiftMs?: number
    readonly ballastMb?: number
    readonly isCollected?: boolean
  }): void {
    writeFileSync(this.#controlFile, JSON.stringify(state))
  }

  /** As a service manager does it: a start that fails is tried again. */
  async start(): Promise<void> {
    for (let tries = 1; ; tries++)
      try {
        await this.#start()
        return
      } catch (error) {
        if (tries === startsMax) throw error
        this.failedStarts.push(String(error).trim().split('\n').at(-1)!.slice(-200))
      }
  }

  async #start(): Promise<void> {
    const urls = this.database.map(({ target }) => target).join(',')
    const cluster =
      urls === ''
        ? []
        : [`--cluster.url=postgres://sluice@${urls}/postgres`, `--cluster.gateway=g${this.number}`]
    const server = await startServer({
      data: this.data,
      isWhole: true,
      flags: [`--config=${this.configFile}`, ...cluster],
      through: plainUser() ?? [],
      env: {
        ...this.certificates?.environment,
        ...{ NODE_OPTIONS: preload, BREAK_CONTROL: this.#controlFile },
      },
    })
    this.#server = server
    this.#isKilled = false
    server.child.once('exit', (code, signal) => {
      const lines = server.stderr().trim().split('\n').slice(-3).join(' | ')
      if (this.#isKilled) return
      this.deaths.push(`gateway ${this.number}: ${signal ?? code}: ${lines}`)
      console.log(`ended by itself: ${this.deaths.at(-1)}`)
    })
  }

  async kill(signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    this.#isKilled = true
    if (signal === 'SIGKILL') this.killedMs.push(performance.now())
    const code = await this.server.stop(signal)
    if (signal === 'SIGTERM' && code !== 0)
      this.deaths.push(`gateway ${this.number}: exit code ${code} after SIGTERM`)
  }

  /** Its main process and all below it. */
  processes(): ServiceProcess[] {
    return this.isRunning ? processesOf(this.server.child.pid!, `gateway ${this.number}`) : []
  }

  /** One call of the operator API; null when it has failed, done or not. */
  async operator(path: string, body?: object): Promise<Record<string, unknown> | null> {
    const call = callApi(apiSocket(this.data), path, body === undefined ? {} : { body })
    const answer = await Promise.race([call.catch(() => null), pause(10_000).then(() => null)])
    call.catch(() => {})
    if (answer?.status !== 200) this.lastRefusal = answer?.text ?? 'no answer'
    return answer?.status === 200 ? answer.json() : null
  }

  /** Writes its configuration anew, with another tip account beside the first. */
  reconfigure(): void {
    const other = Keypair.generate().publicKey.toBase58()
    writeFileSync(this.configFile, '')
    setTimeout(() => {
      writeFileSync(this.configFile, JSON.stringify(this.#config([tipAccount, other])))
    }, 700)
  }

  get #controlFile(): string {
    return join(this.#folder, `control-${this.number}.json`)
  }

  #config(tipAccounts: readonly string[] = [tipAccount]): object {
    const nodes = this.nodes.map((node) => ({
      rpc: node.url,
      grpc: node.server.url('grpc'),
      xToken: '',
    }))
    const { certPath = '', keyPath = '' } = this.certificates?.files ?? {}
    return {
      tls: { cert: certPath, key: keyPath },
      chain: { source: 'upstream' },
      upstreams: { default: { nodes, ...memoryBounds } },
      metrics: { source: 'embedded', connectionsPerAddress: 0, generator: { tps: 5 } },
      // All clients have one address.
      addressBudget: { workMsPerSecond: 0 },
      websocket: { connectionsPerAddress: 0 },
      // Answered once a node has it: what is acknowledged lands.
      tpu: { tipAccounts, wait: true },
      shredstream: { feed: 'udp', allowPrivate: true },
      usage: { push: { file: this.usageFile, everyMs: 500 } },
      streams: { bytes: streamBytes },
      indexer: {
        feeds: { enabled: true, port: this.feedPort },
        ...(this.#index === null ? {} : { engine: 'clickhouse', url: this.#index.url }),
      },
    }
  }
}

export class Stage {
  readonly folder = mkdtempSync(join(tmpdir(), 'sluice-break-'))
  readonly gateways: Gateway[] = []
  readonly shreds = new ShredSockets(() => this.gateways)
  devnode!: Devnode
  node!: SolanaNode
  /** Null where none is installed. */
  postgres: Postgres | null = null
  standby: Standby | null = null
  /** Null where no ClickHouse is installed, or no PostgreSQL. */
  index: IndexServer | null = null
  /** What goes on after a fault has ended, before the next one. */
  repair: Promise<void> = Promise.resolve()
  /** Of a subscription to everything. */
  credentials!: Credentials
  subscription = ''

  /**
   * Alone: one gateway without a cluster, as where no PostgreSQL is installed. Filled: the event log
   * is that of an hour, with which gateways start, and of which they keep no more at the end.
   */
  static async start(
    seed: number,
    options: { readonly isAlone: boolean; readonly isFilled: boolean },
  ): Promise<Stage> {
    const stage = new Stage()
    // A run that is ended by a signal leaves nothing behind, either.
    process.once('exit', () => stage.#removeFiles())
    try {
      await stage.#start(seed, options)
    } catch (error) {
      await stage.dispose()
      throw error
    }
    return stage
  }

  async #start(
    seed: number,
    { isAlone, isFilled }: Parameters<typeof Stage.start>[1],
  ): Promise<void> {
    const target = await this.shreds.open()
    const devnode = startDevnode({
      slotMs,
      flags: [
        ...['--traffic=3', `--nodes=${boxNodes}`, `--seed=${seed}`, `--shreds=${target}`],
        '--faults=lag,lie-slot',
      ],
      env: { NODE_OPTIONS: preload, BREAK_CONTROL: this.#nodeControl },
    })
    if (!isAlone && postgresMissing() === undefined) {
      await this.#startPostgres()
      if (isFilled) await fillEvents(this.postgres!.url)
      this.index = await IndexServer.start(this.folder)
    }
    this.devnode = await devnode
    this.node = await SolanaNode.of(this.devnode)
    const count = this.postgres === null ? 1 : 2
    for (let number = 0; number < count; number++)
      this.gateways.push(await this.#gateway(number, number === count - 1))
    // One after the other: both at once need twice the time of a busy machine.
    for (const gateway of this.gateways) await gateway.start()
    await this.index?.enroll(this.gateways, this.postgres!.url)
    const product = ['bundle', 'indexer']
    const added = await this.provision('everything', { product })
    this.credentials = { token: added.token, indexer: added.indexer! }
    this.subscription = added.subscription.id
    await this.#openDestination()
  }

  async #startPostgres(): Promise<void> {
    this.postgres = await startPostgres()
    await seedRegistry(this.postgres.url)
    delete process.env.SLUICE_CLUSTER__URL
    this.standby = await startStandby(this.postgres)
    await waitForStandby(this.postgres)
  }

  async #gateway(number: number, hasTls: boolean): Promise<Gateway> {
    const [first, ...others] = addressesOf(this.devnode)
    const nodes: CutNode[] = []
    for (const address of [first!, first!, ...others]) {
      const url = (name: string) => (name === 'rpc' ? address.url : address.server.url(name))
      nodes.push(await CutNode.of({ url }))
    }
    // It lies only where that is the fault.
    nodes.at(-1)!.kill(true)
    const servers = this.postgres === null ? [] : [this.postgres, this.standby!]
    const database = await Promise.all(servers.map(({ port }) => TcpCut.open(`127.0.0.1:${port}`)))
    const disk = number === 0 && canMount() ? mountSmallDisk(diskSize) : null
    const certificates = hasTls && hasOpenssl ? new Certificates(this.folder) : null
    const links = { nodes, database, disk, certificates, feedPort: await freePort() }
    return new Gateway(number, this.folder, { ...links, index: number === 1 ? this.index : null })
  }

  /** Adds a subscription to everything, by the operator API of some gateway. */
  async provision(label: string, more: object = {}): Promise<Provisioned> {
    let added: Record<string, unknown> | null = null
    let tries = 0
    // The secrets of an answer that was lost are stored nowhere: another one is added then.
    await until(
      async () => {
        const name = tries++ === 0 ? label : `${label}-${tries}`
        const body = { label: name, product: ['bundle'], plan: 'unlimited', ...more }
        added = await this.gateways[0]!.operator('/v1/subscription/add', body)
        return added !== null
      },
      `subscription ${label}`,
      provisionMs,
    ).catch((error: Error) => {
      throw new Error(`${error.message}: ${this.gateways[0]!.lastRefusal}`)
    })
    // Reason for the cast: the answer is that of the command.
    return added as unknown as Provisioned
  }

  async #openDestination(): Promise<void> {
    await this.provision('shreds', {
      product: ['shredstream'],
      destination: this.shreds.destination,
    })
    await until(() => this.shreds.received > 0, 'shreds at the destination')
  }

  /** Addresses of an endpoint at all gateways, or of those that run. */
  urls(endpoint: string): string[] {
    const running = this.gateways.filter(({ isRunning }) => isRunning)
    return (running.length > 0 ? running : this.gateways).map(({ server }) => server.url(endpoint))
  }

  /** Each `true` after a `false` makes all of them collect their garbage once. */
  collect(isCollected: boolean): void {
    for (const gateway of this.gateways) gateway.control({ isCollected })
    writeFileSync(this.#nodeControl, JSON.stringify({ isCollected }))
  }

  /** Every process of the service, those of the node and of the gateways. */
  processes(): ServiceProcess[] {
    const nodes = processesOf(this.devnode.pid, 'devnode')
    return [...nodes, ...this.gateways.flatMap((gateway) => gateway.processes())]
  }

  async slotNow(): Promise<number> {
    return Number((await this.node.call('getSlot', { commitment: 'processed' })).result)
  }

  async dispose(): Promise<void> {
    for (const gateway of this.gateways) {
      if (gateway.isRunning) await gateway.kill('SIGKILL')
      for (const link of [...gateway.nodes, ...gateway.database]) link.close()
    }
    await this.devnode?.dispose()
    this.postgres?.dispose()
    this.standby?.dispose()
    await this.index?.dispose()
    this.shreds.close()
    this.#removeFiles()
  }

  get #nodeControl(): string {
    return join(this.folder, 'control-node.json')
  }

  #removeFiles(): void {
    for (const gateway of this.gateways) gateway.disk?.unmount()
    rmSync(this.folder, { recursive: true, force: true })
  }
}

/** Sends the node's shreds to every gateway, and receives what customers get. */
export class ShredSockets {
  received = 0
  /** Shreds that came more than once. */
  repeated = 0
  lastMs = 0
  readonly #gateways: () => readonly Gateway[]
  readonly #source: Socket = createSocket('udp4')
  readonly #customer: Socket = createSocket('udp4')
  /** Of the last shreds, to find repeated ones. */
  #seen = new Set<string>()
  #seenBefore = new Set<string>()

  constructor(gateways: () => readonly Gateway[]) {
    this.#gateways = gateways
  }

  get destination(): string {
    return `127.0.0.1:${this.#customer.address().port}`
  }

  async open(): Promise<string> {
    for (const socket of [this.#source, this.#customer]) {
      socket.on('error', () => {})
      socket.bind(0, '127.0.0.1')
      await once(socket, 'listening')
    }
    this.#source.on('message', (packet) => {
      for (const gateway of this.#gateways())
        if (gateway.isRunning) this.#source.send(packet, gateway.server.doors.shredstream!.port)
    })
    this.#customer.on('message', (packet, { address, port }) => {
      // A challenge is answered as it is.
      if (packet.length === 40) this.#customer.send(packet, port, address)
      else this.#take(packet)
    })
    return `127.0.0.1:${(this.#source.address() as AddressInfo).port}`
  }

  close(): void {
    this.#source.close()
    this.#customer.close()
  }

  #take(packet: Buffer): void {
    this.received++
    this.lastMs = performance.now()
    // Variant, slot, index: the header after the signature.
    const name = packet.toString('latin1', 64, 83)
    if (this.#seen.has(name) || this.#seenBefore.has(name)) this.repeated++
    this.#seen.add(name)
    if (this.#seen.size < 100_000) return
    this.#seenBefore = this.#seen
    this.#seen = new Set()
  }
}

/** A process and all below it, named by their entries. */
function processesOf(pid: number, owner: string): ServiceProcess[] {
  const found: ServiceProcess[] = []
  const visit = (one: number, name: string) => {
    found.push({ name, pid: one })
    for (const child of childrenOf(one)) visit(child, `${owner}/${entryOf(child)}`)
  }
  visit(pid, owner)
  return found
}

function childrenOf(pid: number): number[] {
  try {
    // Children are those of the thread that started them.
    return readdirSync(`/proc/${pid}/task`).flatMap((task) =>
      readFileSync(`/proc/${pid}/task/${task}/children`, 'utf8')
        .split(' ')
        .filter((text) => text !== '')
        .map(Number),
    )
  } catch {
    // It ended in between.
    return []
  }
}

function entryOf(pid: number): string {
  try {
    const words = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0')
    const entry = words.find((word) => /\.m?js$/.test(word)) ?? words[0] ?? ''
    return entry
      .split('/')
      .at(-1)!
      .replace(/\.m?js$/, '')
  } catch {
    return 'ended'
  }
}

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
