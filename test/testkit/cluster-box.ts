// A cluster of four nodes with the faults of a seed, a gateway in front of it, and what each of the
// gateway's products says of the same slots.
import { encodeBase58 } from '../../src/chain/solana/base58.ts'
import { type Devnode, startDevnode } from './devnode.ts'
import { Follower } from './follower.ts'
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
  /** Who asks the index. */
  readonly #analyst: Promise<Provisioned>

  private constructor(devnode: Devnode, nodes: readonly NodeAddress[], gateway: SolanaNode) {
    this.devnode = devnode
    this.nodes = nodes
    this.gateway = gateway
    this.#analyst = provision(gateway.server.data, 'analyst', '--product=indexer')
    this.follower = new Follower(new URL(gateway.server.url('grpc')).host, gateway.token, 1)
  }

  static async start(seed: number, ...flags: string[]): Promise<ClusterBox> {
    const devnode = await startDevnode({
      slotMs: 100,
      flags: [`--nodes=${nodes}`, `--seed=${seed}`, '--traffic=20', ...flags],
    })
    const addresses = addressesOf(devnode)
    const gateway = await SolanaNode.before(addresses, '--indexer.enabled=true').catch(
      async (error) => {
        await devnode.dispose()
        throw error
      },
    )
    return new ClusterBox(devnode, addresses, gateway)
  }

  async dispose(): Promise<void> {
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
    const { blocks, signatures } = this.follower
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

/** Those of every node, as the start printed them. */
function addressesOf(devnode: Devnode): NodeAddress[] {
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

/** Runs a seed: what is confirmed at the gateway is the chain, on every product. */
export async function runBox(
  seed: number,
  slots: number,
  ...flags: string[]
): Promise<Record<'chain' | 'grpc' | 'rpc' | 'index', BoxBlock[]>> {
  const box = await ClusterBox.start(seed, ...flags)
  try {
    const { from, to } = await box.slots(slots)
    return {
      chain: await box.chain(from, to),
      grpc: box.grpc(from, to),
      rpc: await box.rpc(from, to),
      index: await box.index(from, to),
    }
  } finally {
    await box.dispose()
  }
}
