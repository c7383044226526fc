// A gateway in front of two nodes of one chain, each killed and frozen in turn under load: no read
// fails, and no notification is lost or repeated on websocket and grpc.
import { once } from 'node:events'
import type { Keypair } from '@solana/web3.js'
import { Pool } from 'undici'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { WebSocket } from 'ws'
import { askOperator } from '../../src/base/transport/unix-socket.ts'
import { encodeBase58 } from '../../src/chain/solana/base58.ts'
import { CutNode } from '../testkit/cut-node.ts'
import { type Devnode, startDevnode } from '../testkit/devnode.ts'
import { Follower } from '../testkit/follower.ts'
import { SolanaNode, transfer } from '../testkit/solana-node.ts'
import { Client } from '../testkit/subscription-stage.ts'
import { until } from '../testkit/until.ts'

const commitments = ['processed', 'confirmed', 'finalized'] as const
const reads = [
  '"getSlot","params":[{"commitment":"processed"}]',
  '"getBalance","params":["11111111111111111111111111111111"]',
  '"getLatestBlockhash","params":[]',
  '"getEpochInfo","params":[]',
]
const readsPerSecond = 40
const sendsPerSecond = 10

let devnode: Devnode
/** The chain itself, past the wires. */
let chain: SolanaNode
const nodes: CutNode[] = []
let gateway: SolanaNode
const followers: Follower[] = []
const sockets: WebSocket[] = []

beforeAll(async () => {
  devnode = await startDevnode({ slotMs: 100 })
  chain = await SolanaNode.of(devnode)
  nodes.push(await CutNode.of(devnode), await CutNode.of(devnode))
  gateway = await SolanaNode.before(nodes, '--metrics.enabled=false')
})
afterAll(async () => {
  for (const follower of followers) follower.stop()
  for (const socket of sockets) socket.terminate()
  await gateway?.dispose()
  for (const node of nodes) node.close()
  await devnode?.dispose()
})

async function connect(url: string, token: string): Promise<Client> {
  const socket = new WebSocket(url, { headers: { 'x-token': token } })
  sockets.push(socket)
  await once(socket, 'open')
  return new Client(socket)
}

interface Status {
  readonly geyser: {
    readonly default: {
      readonly nodes: Readonly<Record<string, { readonly isOpen: boolean }>>
      readonly gapSlots: number
    }
  }
  readonly upstreams: readonly { readonly state: string }[]
}

async function status(): Promise<Status> {
  const answer = await askOperator(gateway.server.data, 'status')
  if (!answer.ok) throw new Error(answer.message)
  return answer.value as Status
}

/** Indexes of the nodes whose geyser streams are open. */
async function streaming(): Promise<number[]> {
  const { nodes: shares } = (await status()).geyser.default
  return [0, 1].filter((at) => shares[`default/${at + 1}`]?.isOpen)
}

/** Reads through the gateway until it is stopped. */
class Reads {
  readonly failures: string[] = []
  done = 0
  readonly #pool = new Pool(gateway.url, { connections: 64 })
  readonly #timer = setInterval(() => void this.#read(), 1000 / readsPerSecond)
  #started = 0

  async #read(): Promise<void> {
    const text = reads[this.#started++ % reads.length]!
    try {
      const { statusCode, body } = await this.#pool.request({
        method: 'POST',
        path: '/',
        headers: { 'content-type': 'application/json', 'x-token': gateway.token },
        body: `{"jsonrpc":"2.0","id":1,"method":${text}}`,
      })
      const answer = (await body.json()) as { result?: unknown }
      if (statusCode !== 200 || answer.result === undefined)
        this.failures.push(`${statusCode} ${text} ${JSON.stringify(answer)}`)
    } catch (error) {
      this.failures.push(`${text} ${error}`)
    }
    this.done++
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer)
    await until(() => this.done === this.#started, 'the last reads')
    await this.#pool.close()
  }
}

/** Lands transfers on the chain, and subscribes to some of their signatures at the gateway first. */
class Sends {
  /** Base64, as followers have them. */
  readonly signatures: string[] = []
  readonly #client: Client
  readonly #from: Keypair
  readonly #to: Keypair
  /** Of those that were subscribed to. */
  readonly ids: number[] = []
  #isStopped = false
  readonly #done: Promise<void>

  constructor(client: Client, from: Keypair, to: Keypair) {
    this.#client = client
    this.#from = from
    this.#to = to
    this.#done = this.#run()
  }

  async #run(): Promise<void> {
    for (let number = 1; !this.#isStopped; number++) {
      const transfers = [transfer(this.#from, this.#to.publicKey, number)]
      const bytes = await chain.signed(transfers, [this.#from])
      const signature = encodeBase58(bytes.subarray(1, 65))
      const config = { commitment: commitments[number % 3] }
      if (number % 4 === 0)
        this.ids.push(await this.#client.subscribe('signature', signature, config))
      await chain.connection.sendRawTransaction(bytes, { skipPreflight: true })
      this.signatures.push(bytes.subarray(1, 65).toString('base64'))
      await new Promise((resolve) => setTimeout(resolve, 1000 / sendsPerSecond))
    }
  }

  stop(): Promise<void> {
    this.#isStopped = true
    return this.#done
  }
}

/** A subscription at the gateway, and the same one at the chain itself. */
interface Pair {
  readonly name: string
  readonly through: number
  readonly direct: number
  /** Identity of a notification. */
  keyOf(result: never): string | number
}

async function subscribeAll(through: Client, direct: Client, key: string): Promise<Pair[]> {
  const pairs: Pair[] = []
  const add = async (topic: string, params: unknown[], keyOf: Pair['keyOf'], name = topic) => {
    const ids = [
      await through.subscribe(topic, ...params),
      await direct.subscribe(topic, ...params),
    ]
    pairs.push({ name, through: ids[0]!, direct: ids[1]!, keyOf })
  }
  type Slotted = { slot: number; context: { slot: number } }
  await add('slot', [], ({ slot }: Slotted) => slot)
  await add('root', [], (root: number) => root)
  for (const commitment of commitments) {
    const of = (topic: string) => `${topic} ${commitment}`
    const config = { commitment, encoding: 'base64' }
    const written = ({ value }: { value: { lamports: number } }) => value.lamports
    await add('account', [key, config], written, of('account'))
    const logged = ({ value }: { value: { signature: string } }) => value.signature
    await add('logs', [{ mentions: [key] }, { commitment }], logged, of('logs'))
    const details = { commitment, transactionDetails: 'signatures' }
    const landed = ({ signature }: { signature: string }) => signature
    await add('transaction', [{ accountInclude: [key] }, details], landed, of('transaction'))
    if (commitment !== 'processed')
      await add('block', ['all', details], ({ context }: Slotted) => context.slot, of('block'))
  }
  return pairs
}

/** Lost and repeated notifications of each pair, from the first to the last that both have. */
function compare(pairs: readonly Pair[], through: Client, direct: Client) {
  return pairs.map(({ name, keyOf, ...ids }) => {
    const keysOf = (client: Client, id: number) =>
      client.of(id).map(keyOf as (result: unknown) => string | number)
    const [all, truth] = [keysOf(through, ids.through), keysOf(direct, ids.direct)]
    // One of the two was subscribed, and read, a little earlier.
    const first = truth.includes(all[0]!) ? all[0]! : truth[0]!
    const last = truth.includes(all.at(-1)!) ? all.at(-1)! : truth.at(-1)!
    const received = all.slice(all.indexOf(first), all.lastIndexOf(last) + 1)
    const expected = truth.slice(truth.indexOf(first), truth.indexOf(last) + 1)
    const distinct = new Set(received)
    return {
      name,
      isMuch: expected.length > 20,
      lost: expected.filter((one) => !distinct.has(one)).length,
      repeated: received.length - distinct.size,
      isInOrder: JSON.stringify(received) === JSON.stringify(expected),
    }
  })
}

it('fails no read and loses or duplicates no notification when each node is killed and frozen', async () => {
  const [from, to] = [await chain.funded(), await chain.funded()]
  const key = to.publicKey.toBase58()
  await until(async () => (await gateway.connection.getBalance(to.publicKey)) > 0, 'the airdrop')
  const through = await connect(gateway.server.url('websocket'), gateway.token)
  const direct = await connect(devnode.url('websocket'), '')
  const pairs = await subscribeAll(through, direct, key)
  const target = new URL(gateway.server.url('grpc')).host
  for (const commitment of [0, 1, 2])
    followers.push(new Follower(target, gateway.token, commitment))
  for (const follower of followers) await follower.reaches(follower.newest + 5)
  const readers = new Reads()
  const sends = new Sends(through, from, to)
  const hits = [0, 1].flatMap(
    (victim) =>
      [
        { victim, how: 'kill' },
        { victim, how: 'freeze' },
      ] as const,
  )
  for (const { victim, how } of hits) {
    await until(async () => (await streaming()).length === 2, 'both streams')
    const { newest } = followers[2]!
    nodes[victim]![how](true)
    const isLeft = async () => String(await streaming()) === String(1 - victim)
    await until(isLeft, 'the stream of the other node alone')
    // Finalized slots that began after the failover.
    await followers[2]!.reaches(newest + 60)
    nodes[victim]![how](false)
    const isUp = async () => (await status()).upstreams[victim]!.state === 'up'
    await until(isUp, 'the node to be back')
  }
  // However slow the machine is, this many were sent and read meanwhile.
  await until(() => sends.signatures.length > 100 && readers.done > 500, 'enough of both')
  await sends.stop()
  await readers.stop()
  const last = sends.signatures.at(-1)!
  await chain.reached(encodeBase58(Buffer.from(last, 'base64')), 'finalized')
  const isEverywhere = () =>
    followers.every(({ signatures }) => [...signatures.values()].some((all) => all.has(last))) &&
    sends.ids.every((id) => through.of(id).length > 0) &&
    pairs.every((pair) => through.of(pair.through).length > 0)
  await until(isEverywhere, 'the last transaction on every stream')
  const { newest } = followers[2]!
  await followers[2]!.reaches(newest + 10)

  expect(sends.signatures.length).toBeGreaterThan(100)
  expect([readers.done > 500, readers.failures]).toEqual([true, []])
  for (const pair of compare(pairs, through, direct))
    expect(pair).toEqual({ name: pair.name, isMuch: true, lost: 0, repeated: 0, isInOrder: true })
  expect(sends.ids.map((id) => through.of(id).length)).toEqual(sends.ids.map(() => 1))
  for (const { duplicates, ends, signatures } of followers) {
    const received = [...signatures.values()].flatMap((all) => [...all])
    const lost = sends.signatures.filter((one) => !received.includes(one))
    expect({ lost, duplicates, ends }).toEqual({ lost: [], duplicates: 0, ends: [] })
    expect(new Set(received).size).toBe(received.length)
  }
  expect(followers.flatMap((follower) => follower.gaps())).toEqual([])
  expect((await status()).geyser.default.gapSlots).toBe(0)
})
