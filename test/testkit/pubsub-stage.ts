// The websocket endpoint in front of sets of nodes, in process: their geyser streams and customers.
import { once } from 'node:events'
import { WebSocket } from 'ws'
import { systemClock } from '../../src/base/clock.ts'
import { type Log, silentLog } from '../../src/base/telemetry/log.ts'
import { SetChains } from '../../src/operator/topology/set-chains.ts'
import type { NodeSection } from '../../src/upstream/config.ts'
import { Upstreams } from '../../src/upstream/node-pool/upstreams.ts'
import { Bundle } from './bundle.ts'
import type { SolanaNode } from './solana-node.ts'
import { Client } from './subscription-stage.ts'
import { until } from './until.ts'
import { setSection } from './upstream-sections.ts'

interface StageOptions {
  readonly log?: Log
  /** Keeps the stream there, and 8 slots in memory. */
  readonly logFolder?: string
}

export class PubsubStage {
  readonly bundle = new Bundle()
  readonly upstreams: Upstreams
  readonly streams: SetChains
  readonly #clients: Client[] = []
  port = 0

  private constructor(
    sets: Readonly<Record<string, readonly Partial<NodeSection>[]>>,
    { log = silentLog, logFolder }: StageOptions,
  ) {
    const entries = Object.entries(sets).map(([name, nodes]) => [name, setSection(nodes)] as const)
    const deps = { clock: systemClock, log }
    this.upstreams = new Upstreams(Object.fromEntries(entries), deps)
    const kept = { keepMs: 3_600_000, bytesMax: 2 ** 30, compress: 'none' } as const
    const onDisk = logFolder === undefined ? null : { folder: logFolder, bounds: kept }
    const bounds = { replaySlots: 8, replayBytesMax: 2 ** 26 }
    const more = onDisk === null ? {} : { streamLog: onDisk, bounds }
    this.streams = new SetChains(this.upstreams, { ...deps, ...more })
  }

  static async start(
    sets: Readonly<Record<string, readonly Partial<NodeSection>[]>>,
    options: StageOptions = {},
  ): Promise<PubsubStage> {
    const stage = new PubsubStage(sets, options)
    await stage.upstreams.start()
    const { port } = await stage.bundle.openWebsocket({
      section: { connectionsPerAddress: 0 },
      chainOf: ({ upstream }) => stage.streams.of(upstream ?? 'default'),
    })
    stage.port = port
    for (const name of Object.keys(sets)) {
      const stream = stage.streams.of(name)
      if (stream !== null) await until(() => stream.slot(2) > 0, `the stream of ${name}`)
    }
    return stage
  }

  get url(): string {
    return `ws://127.0.0.1:${this.port}`
  }

  async connect(token = this.bundle.issue().token): Promise<Client> {
    const socket = new WebSocket(this.url, { headers: { 'x-token': token } })
    socket.on('error', () => {})
    await once(socket, 'open')
    const client = new Client(socket)
    this.#clients.push(client)
    return client
  }

  /** Counts of a set's stream. */
  counts(set = 'default') {
    return this.streams.readings().find((reading) => reading.set === set)!.counts
  }

  async stop(): Promise<void> {
    for (const client of this.#clients) client.socket.terminate()
    await this.bundle.dispose()
    await this.streams.stop()
    await this.upstreams.stop()
  }
}

/** A running server or devnode as a node of a set. */
export function nodeOf(node: SolanaNode): Partial<NodeSection> {
  return { rpc: node.url, grpc: node.server.url('grpc'), xToken: node.token }
}
