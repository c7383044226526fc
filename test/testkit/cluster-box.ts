// A cluster of four nodes with the faults of a seed, a gateway in front of it, and what each of the
// gateway's products says of the same slots.
import { once } from 'node:events'
import { WebSocket } from 'ws'
import { encodeBase58 } from '../../src/chain/solana/base58.ts'
import { type Devnode, startDevnode } from './devnode.ts'
import { Follower } from './follower.ts'
import { migrationSlots } from './seeded-cluster.ts'
import { type Provisioned, provision } from './server.ts'
import { type NodeAddress, SolanaNode } from './solana-node.ts'
import { until } from './until.ts'

const nodes = 4
const confirmed = { commitment: 'confirmed' }

export interface BoxBlock {
  readonly slot: number
  readonly blockhash: string
  /** In the order of the text. */
  readonly signatures: readonly string[]
}

export class ClusterBox {
  readonly devnode: Devnode
  readonly nodes: readonly NodeAddress[]
  readonly gateway: SolanaNode
  readonly follower: Follower
  /** At processed, with retractions. */
  readonly retracting: Follower
  readonly #socket: WebSocket
  /** Blocks that blockSubscribe notified at confirmed. */
  readonly #notified: BoxBlock[] = []
  /** Who asks the index. */
  readonly #analyst: Promise<Provisioned>

  private constructor(devnode: Devnode, nodes: readonly NodeAddress[], gateway: SolanaNode) {
    this.devnode = devnode
    this.nodes = nodes
    this.gateway = gateway
    this.#analyst = provision(gateway.server.data, 'analyst', '--product=indexer')
    const grpc = new URL(gateway.server.url('grpc')).host
    this.follower = new Follower(grpc, gateway.token, 1)
    this.retracting = new Follower(grpc, gateway.token, 0, true)
    const headers = { 'x-token': gateway.token }
    this.#socket = new WebSocket(gateway.server.url('websocket'), { headers })
    this.#socket.on('message', (data) => this.#take(String(data)))
  }

  /** The chain stands still while the gateway starts: every slot after that passes through it. */
  static async start(seed: number, ...flags: string[]): Promise<ClusterBox> {
    const devnode = await startDevnode({
      slotMs: 100,
      flags: [`--nodes=${nodes}`, `--seed=${seed}`, '--traffic=20', ...flags],
    })
    try {
      const addresses = addressesOf(devnode)
      const ask = (...call: [string, ...unknown[]]) => callAt(addresses[0]!.url, ...call)
      await until(async () => Number(await ask('getSlot')) > 0, 'a finalized block')
      await ask('surfnet_pauseClock')
      // On a busy machine it may stand still too late: another chain is started then.
      if (Number(await ask('getSlot', { commitment: 'processed' })) >= migrationSlots.from) {
        await devnode.dispose()
        return ClusterBox.start(seed, ...flags)
      }
      const gateway = await SolanaNode.before(addresses, '--indexer.enabled=true')
      const box = new ClusterBox(devnode, addresses, gateway)
      await box.#listen()
      await ask('surfnet_resumeClock')
      return box
    } catch (error) {
      await devnode.dispose()
      throw error
    }
  }

  async dispose(): Promise<void> {
    this.#socket.terminate()
    this.retracting.stop()
    this.follower.stop()
    await this.gateway.dispose()
    await this.devnode.dispose()
  }

  /** The next so many slots from now on that are confirmed everywhere. */
  async slots(count: number): Promise<{ readonly from: number; readonly to: number }> {
    await until(() => this.follower.blocks.size > 1, 'the first blocks')
    const from = this.follower.newest + 1
    const to = from + count
    await this.follower.reaches(to + 1)
    await until(() => this.retracting.finalized > to, 'the slots are finalized')
    await until(() => (this.#notified.at(-1)?.slot ?? 0) > to, 'the notifications')
    const newest = async () => Number((await this.#indexed('max(slot)', 'blocks', ''))[0])
    await until(async () => (await newest()) > to, 'the blocks in the index')
    return { from, to }
  }

  /** The chain itself: the first node's ledger, which no fault touches. */
  chain(from: number, to: number): Promise<BoxBlock[]> {
    return blocksOf((...call) => callAt(this.nodes[0]!.url, ...call), from, to)
  }

  rpc(from: number, to: number): Promise<BoxBlock[]> {
    const read = async (method: string, ...params: unknown[]) =>
      (await this.gateway.call(method, ...params)).result
    return blocksOf(read, from, to)
  }

  grpc(from: number, to: number): BoxBlock[] {
    return blocksIn(this.follower, from, to)
  }

  /** What a model client holds that has applied the retractions. */
  processed(from: number, to: number): BoxBlock[] {
    return blocksIn(this.retracting, from, to)
  }

  pubsub(from: number, to: number): BoxBlock[] {
    return this.#notified.filter(({ slot }) => slot >= from && slot <= to)
  }

  async #listen(): Promise<void> {
    await once(this.#socket, 'open')
    const config = { ...confirmed, transactionDetails: 'signatures', showRewards: false }
    const method = 'blockSubscribe'
    const answered = once(this.#socket, 'message')
    this.#socket.send(JSON.stringify({ jsonrpc: '2.0', id: 1, method, params: ['all', config] }))
    await answered
  }

  #take(text: string): void {
    const { method, params } = JSON.parse(text)
    if (method !== 'blockNotification') return
    const { slot, block } = params.result.value
    const { blockhash, signatures } = block
    this.#notified.push({ slot, blockhash, signatures: signatures.toSorted() })
  }

  async index(from: number, to: number): Promise<BoxBlock[]> {
    const where = `WHERE slot BETWEEN ${from} AND ${to}`
    const blocks = await this.#indexed("concat(toString(slot), ' ', blockhash)", 'blocks', where)
    const landed = await this.#indexed(
      "concat(toString(slot), ' ', signature)",
      'transactions',
      where,
    )
    const words = landed.map((line) => line.split(' '))
    const slots = new Set([...blocks, ...landed].map((line) => Number(line.split(' ')[0])))
    return [...slots]
      .sort((a, b) => a - b)
      .map((slot) => ({
        slot,
        blockhash: blocks.find((line) => line.startsWith(`${slot} `))?.split(' ')[1] ?? 'no block',
        signatures: words
          .filter(([at]) => Number(at) === slot)
          .map(([, signature]) => signature!)
          .toSorted(),
      }))
  }

  async #indexed(expression: string, table: string, where: string): Promise<string[]> {
    const { server } = this.gateway
    const { token, indexer } = await this.#analyst
    const { user, password } = indexer!
    const response = await fetch(server.url('indexer'), {
      method: 'POST',
      headers: { 'x-token': token, 'x-clickhouse-user': user, 'x-clickhouse-key': password },
      body: `SELECT ${expression} FROM ${table} ${where} FORMAT TSV`,
    })
    const text = await response.text()
    if (!response.ok) throw new Error(text)
    return text.split('\n').filter((line) => line !== '')
  }
}

function blocksIn(follower: Follower, from: number, to: number): BoxBlock[] {
  const { blocks, signatures } = follower
  const slots = [...new Set([...blocks.keys(), ...signatures.keys()])]
  return slots
    .filter((slot) => slot >= from && slot <= to)
    .sort((a, b) => a - b)
    .map((slot) => ({
      slot,
      blockhash: blocks.get(slot)?.blockhash ?? 'no block',
      signatures: [...(signatures.get(slot) ?? [])]
        .map((text) => encodeBase58(Buffer.from(text, 'base64')))
        .toSorted(),
    }))
}

/** Those of every node, as the start printed them. */
export function addressesOf(devnode: Devnode): NodeAddress[] {
  const first = { rpc: devnode.url('rpc'), grpc: devnode.url('grpc') }
  const others = [...devnode.stdout().matchAll(/^node \d+ +(\S+) \S+ (\S+) \S+$/gm)].map(
    ([, rpc, grpc]) => ({ rpc: rpc!, grpc: grpc!.replace(/^grpc:/, 'http:') }),
  )
  if (others.length !== nodes - 1) throw new Error(`not ${nodes} nodes: ${devnode.stdout()}`)
  return [first, ...others].map(({ rpc, grpc }) => ({
    url: rpc,
    token: '',
    server: { url: () => grpc },
  }))
}

type Read = (method: string, ...params: unknown[]) => Promise<unknown>

async function blocksOf(read: Read, from: number, to: number): Promise<BoxBlock[]> {
  const slots = (await read('getBlocks', from, to, confirmed)) as number[]
  const config = { ...confirmed, transactionDetails: 'signatures', rewards: false }
  const blocks: BoxBlock[] = []
  for (const slot of slots) {
    type Shown = { blockhash: string; signatures: string[] }
    const block = (await read('getBlock', slot, config)) as Shown
    blocks.push({ slot, blockhash: block.blockhash, signatures: block.signatures.toSorted() })
  }
  return blocks
}

async function callAt(url: string, method: string, ...params: unknown[]): Promise<unknown> {
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
  })
  return ((await response.json()) as { result: unknown }).result
}

export interface BoxRun {
  readonly chain: BoxBlock[]
  /** The same slots, by who was asked. */
  readonly read: Record<'grpc' | 'processed' | 'pubsub' | 'rpc' | 'index', BoxBlock[]>
  /** Retractions as `slot reason`. */
  readonly retracted: readonly string[]
}

/** Runs a seed: what is confirmed at the gateway is the chain, on every product. */
export async function runBox(seed: number, slots: number, ...flags: string[]): Promise<BoxRun> {
  const box = await ClusterBox.start(seed, ...flags)
  try {
    const { from, to } = await box.slots(slots)
    const read = {
      grpc: box.grpc(from, to),
      processed: box.processed(from, to),
      pubsub: box.pubsub(from, to),
      rpc: await box.rpc(from, to),
      index: await box.index(from, to),
    }
    return { chain: await box.chain(from, to), read, retracted: box.retracting.retracted }
  } finally {
    await box.dispose()
  }
}
