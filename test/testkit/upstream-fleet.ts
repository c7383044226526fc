// A server in front of three others, each with a chain of its own that has the genesis hash of the
// others': real processes, real wires, and customers who read and send without pause.
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Pool } from 'undici'
import { askOperator } from '../../src/base/transport/unix-socket.ts'
import { configFields } from '../../src/operator/config/config.ts'
import { provision, type Server, startServer } from './server.ts'
import { SlowWire } from './slow-wire.ts'
import { until } from './until.ts'

/** Every endpoint except RPC is disabled. */
const quiet = Object.entries(configFields).flatMap(([name, node]) =>
  node.node === 'group' && 'enabled' in node.fields && name !== 'rpc'
    ? [`--${name}.enabled=false`]
    : [],
)
const reads: readonly string[] = [
  '"getSlot","params":[{"commitment":"processed"}]',
  '"getBalance","params":["11111111111111111111111111111111"]',
  '"getLatestBlockhash","params":[]',
  '"getEpochInfo","params":[]',
]
const sendPattern = /send-\d+-x/g

export interface ReadSample {
  readonly phase: string
  readonly atMs: number
  readonly tookMs: number
  /** Empty when it was answered by a result. */
  readonly problem: string
}

export interface FleetNode {
  server: Server
  readonly flags: readonly string[]
  readonly token: string
  readonly wire: SlowWire
}

export class Fleet {
  readonly nodes: FleetNode[] = []
  readonly samples: ReadSample[] = []
  /** Those that were answered in the phase in which they began. */
  readonly sent: { readonly phase: string; readonly text: string }[] = []
  /** What is being done to the nodes; each read remembers it. */
  phase = ''
  #front: Server | null = null
  #token = ''
  #pool: Pool | null = null
  #timer: NodeJS.Timeout | null = null
  #sends = 0

  /** A node per slot time; one with longer slots than the others lags them. */
  static async start(options: {
    slotMs: readonly number[]
    setFlags: readonly string[]
  }): Promise<Fleet> {
    const fleet = new Fleet()
    // Together, so that their chains are about as old.
    const servers = await Promise.all(options.slotMs.map(startChain))
    // One after another: the command in this process has one standard output.
    for (const started of servers) fleet.nodes.push(await nodeOf(started))
    await fleet.#openFront(options.setFlags)
    return fleet
  }

  get front(): Server {
    if (this.#front === null) throw new Error('not started')
    return this.#front
  }

  /** One call through the front. */
  async call(text: string): Promise<{ status: number; json: Record<string, unknown> }> {
    const { statusCode, body } = await this.#pool!.request({
      method: 'POST',
      path: '/',
      headers: { 'content-type': 'application/json', 'x-token': this.#token },
      body: `{"jsonrpc":"2.0","id":1,"method":${text}}`,
    })
    return { status: statusCode, json: (await body.json()) as Record<string, unknown> }
  }

  /** Reads at this rate from now on, and sends with every fiftieth. */
  load(readsPerSecond: number): void {
    let owed = 0
    let turn = 0
    let lastMs = performance.now()
    this.#timer = setInterval(() => {
      const nowMs = performance.now()
      // A stall of this process is not made up for by a burst.
      owed += Math.min(((nowMs - lastMs) / 1000) * readsPerSecond, readsPerSecond / 10)
      lastMs = nowMs
      for (; owed >= 1; owed--) {
        void this.#read(reads[turn++ % reads.length] as string)
        if (turn % 50 === 0) void this.#send()
      }
    }, 10)
  }

  pause(): void {
    if (this.#timer !== null) clearInterval(this.#timer)
    this.#timer = null
  }

  /** `<set>/<n>` -> state, as the operator sees it. */
  async states(): Promise<string[]> {
    const answer = await askOperator(this.front.data, 'status')
    if (!answer.ok) return []
    const { upstreams } = answer.value as { upstreams: { state: string }[] }
    return upstreams.map(({ state }) => state)
  }

  async untilState(index: number, wanted: string): Promise<void> {
    const isThere = async () => (await this.states())[index] === wanted
    await until(isThere, `node ${index + 1} to be ${wanted}`)
  }

  /** Until so many more reads are through. */
  async untilReads(count: number): Promise<void> {
    const wanted = this.samples.length + count
    await until(() => this.samples.length >= wanted, `${count} reads`)
  }

  /** What went wrong with reads, and how often in which phase. */
  problems(): Record<string, number> {
    const found: Record<string, number> = {}
    for (const { phase, problem } of this.samples)
      if (problem !== '') found[`${phase}: ${problem}`] = (found[`${phase}: ${problem}`] ?? 0) + 1
    return found
  }

  /** As kill -9: the process and its port are gone. */
  async kill(index: number): Promise<void> {
    const node = this.nodes[index] as FleetNode
    await Promise.all([node.server.stop('SIGKILL'), node.wire.down()])
  }

  async revive(index: number): Promise<void> {
    const node = this.nodes[index] as FleetNode
    const { data, doors } = node.server
    const flags = [...node.flags, `--rpc.port=${doors.rpc?.port}`]
    node.server = await startServer({ data, flags })
    await node.wire.up()
  }

  /** How often each send arrived at the nodes, all together. */
  arrivals(): Map<string, number> {
    const all = new Map<string, number>()
    for (const { wire } of this.nodes)
      for (const [text, count] of wire.seen) all.set(text, (all.get(text) ?? 0) + count)
    return all
  }

  async dispose(): Promise<void> {
    this.pause()
    await this.#pool?.destroy()
    await Promise.all([
      this.#front?.dispose(),
      ...this.nodes.map(({ server, wire }) => Promise.all([server.dispose(), wire.down()])),
    ])
  }

  async #openFront(setFlags: readonly string[]): Promise<void> {
    const nodeFlags = this.nodes.flatMap(({ token, wire }, index) => [
      `--upstreams.default.nodes.${index}.rpc=http://127.0.0.1:${wire.port}`,
      `--upstreams.default.nodes.${index}.xToken=${token}`,
    ])
    this.#front = await startServer({
      flags: [...quiet, '--chain.source=upstream', ...nodeFlags, ...setFlags],
    })
    this.#token = (await provision(this.#front.data, 'customer', ...unlimited)).token
    this.#pool = new Pool(this.#front.url('rpc'), { connections: 128 })
    const isOpen = async () => (await this.call(reads[0] as string)).json.result !== undefined
    await until(isOpen, 'the first read')
  }

  async #read(text: string): Promise<void> {
    const atMs = performance.now()
    const { phase } = this
    const problem = await this.call(text).then(problemOf, (error: Error) => error.message)
    this.samples.push({ phase, atMs, tookMs: performance.now() - atMs, problem })
  }

  /** No transaction at all: the node refuses it, which is as good an answer. */
  async #send(): Promise<void> {
    const text = `send-${this.#sends++}-x`
    const { phase } = this
    await this.call(`"sendTransaction","params":["${text}"]`).catch(() => {})
    if (phase === this.phase) this.sent.push({ phase, text })
  }
}

async function startChain(slotMs: number): Promise<Pick<FleetNode, 'server' | 'flags'>> {
  const flags = [...quiet, '--chain.traffic=0', `--chain.slotMs=${slotMs}`]
  const data = mkdtempSync(join(tmpdir(), 'sluice-fleet-'))
  mkdirSync(join(data, 'chain'))
  writeFileSync(join(data, 'chain', 'seed'), '07'.repeat(32))
  return { server: await startServer({ data, flags }), flags }
}

async function nodeOf(started: Pick<FleetNode, 'server' | 'flags'>): Promise<FleetNode> {
  const { server, flags } = started
  const { token } = await provision(server.data, 'front', ...unlimited)
  const wire = new SlowWire(server.doors.rpc?.port ?? 0, sendPattern)
  await wire.up()
  return { server, flags, token, wire }
}

const unlimited = ['--product=bundle', '--plan=unlimited']

function problemOf({ status, json }: { status: number; json: Record<string, unknown> }): string {
  if (status === 200 && json.result !== undefined) return ''
  return `${status} ${JSON.stringify(json.error ?? json)}`
}
