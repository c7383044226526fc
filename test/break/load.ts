// Load on every endpoint while the service is broken, with a record of all that was acknowledged:
// calls by gateway, subscriptions and their changes, transactions that a node has.
import { Keypair, PublicKey } from '@solana/web3.js'
import { encodeBase58 } from '../../src/chain/solana/base58.ts'
import { commitments } from '../testkit/roaming-readers.ts'
import type { Provisioned } from '../testkit/server.ts'
import { signedWith, transfer } from '../testkit/solana-node.ts'
import type { Readers } from './readers.ts'
import { type Gateway, pause, type Stage, tipAccount } from './stage.ts'

/** A call that is not answered by then is given up; what became of it is unknown. */
const callMsMax = 10_000
const callEveryMs = 100
const changeEveryMs = 2_500
const sendEveryMs = 400
const queryEveryMs = 1_000
/** Usage of the last moments before kill -9 is forgiven. */
const forgivenMs = 1_000
const tipLamports = 1_000_000

export interface AcknowledgedSubscription {
  readonly label: string
  readonly id: string
  /** The token that works, and one that was replaced. */
  token: string
  oldToken: string | null
  /** Null when a change of it failed, done or not. */
  state: 'active' | 'suspended' | null
}

export class Load {
  /** Calls with the token of `metered`, whose usage is compared. */
  readonly calls = { sent: 0, answered: 0, forgiven: 0, failed: 0, refused: 0 }
  readonly subscriptions: AcknowledgedSubscription[] = []
  /** Signatures that a gateway acknowledged once a node had them. */
  readonly landed: { readonly signature: string; readonly route: string }[] = []
  readonly queries = { answered: 0, failed: 0 }
  /** Calls and queries whose credentials were valid and were refused as if they were not. */
  readonly rejected = new Map<string, number>()
  readonly metered: Provisioned
  readonly #stage: Stage
  readonly #readers: Readers
  readonly #random: () => number
  /** When calls of each gateway were answered, of the last second. */
  readonly #recent = new Map<Gateway, number[]>()
  #isOver = false
  #work: Promise<unknown> = Promise.resolve()
  readonly #payer: Keypair

  private constructor(
    stage: Stage,
    readers: Readers,
    random: () => number,
    base: { readonly metered: Provisioned; readonly payer: Keypair },
  ) {
    this.#stage = stage
    this.#readers = readers
    this.#random = random
    this.metered = base.metered
    this.#payer = base.payer
  }

  static async open(stage: Stage, readers: Readers, random: () => number): Promise<Load> {
    const metered = await stage.provision('metered')
    const payer = await stage.node.funded(1_000_000_000_000)
    const load = new Load(stage, readers, random, { metered, payer })
    load.#start()
    return load
  }

  /** Resolves when all that was sent is answered or given up. */
  async stop(): Promise<void> {
    this.#isOver = true
    await this.#work
  }

  /** What was answered just before kill -9 may be missing from the usage. */
  forgive(gateway: Gateway): void {
    const sinceMs = performance.now() - forgivenMs
    const recent = this.#recent.get(gateway)?.splice(0) ?? []
    this.calls.forgiven += recent.filter((atMs) => atMs > sinceMs).length
  }

  #start(): void {
    this.#work = Promise.all([
      this.#repeat(callEveryMs, () => void this.#call(), true),
      this.#repeat(changeEveryMs, () => this.#change()),
      this.#repeat(sendEveryMs, () => this.#send()),
      this.#repeat(queryEveryMs, () => this.#query()),
    ])
  }

  #inFlight = 0

  async #repeat(everyMs: number, work: () => unknown, isOpen = false): Promise<void> {
    while (!this.#isOver) {
      await work()
      await pause(everyMs * (0.5 + this.#random()))
    }
    // Open-loop calls may still be on their way.
    while (isOpen && this.#inFlight > 0) await pause(20)
  }

  #anyGateway(): Gateway {
    const running = this.#stage.gateways.filter(({ isRunning }) => isRunning)
    const all = running.length > 0 ? running : this.#stage.gateways
    return all[Math.floor(this.#random() * all.length)]!
  }

  async #call(): Promise<void> {
    const gateway = this.#anyGateway()
    this.#inFlight++
    this.calls.sent++
    const status = await statusWith(gateway, this.metered.token)
    this.#inFlight--
    this.#note('call', status, gateway)
    if (status === null) this.calls.failed++
    else if (status !== 200) this.calls.refused++
    else {
      this.calls.answered++
      const recent = this.#recent.get(gateway) ?? []
      this.#recent.set(gateway, recent)
      const nowMs = performance.now()
      recent.push(nowMs)
      while (recent[0]! < nowMs - 2 * forgivenMs) recent.shift()
    }
  }

  /** Whatever is broken, what is valid is never answered with 401 or 403. */
  #note(what: string, status: number | null, { number }: Gateway): void {
    if (status !== 401 && status !== 403) return
    const name = `${status} to a ${what} at gateway ${number}`
    this.rejected.set(name, (this.rejected.get(name) ?? 0) + 1)
  }

  /** Adds a subscription, or changes one that was added. */
  async #change(): Promise<void> {
    const known = this.subscriptions[Math.floor(this.#random() * this.subscriptions.length)]
    const kind = this.#random()
    if (known === undefined || known.state === null || kind < 0.5) await this.#add()
    else if (kind < 0.75) await this.#toggle(known)
    else await this.#rotate(known)
  }

  #added = 0

  async #add(): Promise<void> {
    const label = `added-${this.#added++}`
    const body = { label, product: ['bundle'], plan: 'unlimited' }
    const added = await this.#anyGateway().operator('/v1/subscription/add', body)
    if (added === null) return
    // Reason for the cast: the answer is that of the command.
    const { subscription, token } = added as unknown as Provisioned
    const { id } = subscription
    this.subscriptions.push({ label, id, token, oldToken: null, state: 'active' })
  }

  async #toggle(known: AcknowledgedSubscription): Promise<void> {
    const next = known.state === 'active' ? 'suspended' : 'active'
    const verb = next === 'active' ? 'resume' : 'suspend'
    known.state = null
    const body = { subscription: known.id }
    const changed = await this.#anyGateway().operator(`/v1/subscription/${verb}`, body)
    if (changed !== null) known.state = next
  }

  async #rotate(known: AcknowledgedSubscription): Promise<void> {
    const { state } = known
    known.state = null
    const body = { subscription: known.id }
    const rotated = await this.#anyGateway().operator('/v1/token/rotate', body)
    if (rotated === null) return
    known.oldToken = known.token
    known.token = String(rotated.token)
    known.state = state
  }

  #sent = 0

  /** A transfer by RPC or, with a tip, by the TPU endpoint; some of them a client waits for. */
  async #send(): Promise<void> {
    const number = this.#sent++
    const isTipped = number % 2 === 1
    const latest = await this.#stage.node
      .call('getLatestBlockhash', { commitment: 'processed' })
      .catch(() => null)
    const blockhash = latest?.result?.value.blockhash
    if (blockhash === undefined) return
    const to = isTipped ? new PublicKey(tipAccount) : Keypair.generate().publicKey
    const instruction = transfer(this.#payer, to, tipLamports + number)
    const bytes = signedWith(blockhash, [instruction], [this.#payer])
    const signature = encodeBase58(bytes.subarray(1, 65))
    const { pubsub } = this.#readers
    const route = isTipped ? 'tpu' : 'rpc'
    const { token } = this.#stage.credentials
    const params = [bytes.toString('base64'), { encoding: 'base64', skipPreflight: true }]
    const answer = await callAt(this.#anyGateway(), route, token, 'sendTransaction', params)
    if (answer?.result !== signature) return
    this.landed.push({ signature, route })
    if (number % 4 === 0)
      pubsub[number % pubsub.length]!.confirm(signature, commitments[number % 3]!)
  }

  async #query(): Promise<void> {
    const gateway = this.#anyGateway()
    const note = (status: number) => this.#note('query', status, gateway)
    const rows = await queryAt(gateway, this.#stage, 'SELECT count() FROM blocks', note)
    if (rows === null) this.queries.failed++
    else this.queries.answered++
  }
}

/** The HTTP status of a read with this token; null without an answer. */
export async function statusWith(gateway: Gateway, token: string): Promise<number | null> {
  try {
    const answer = await fetch(gateway.server.url('rpc'), {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-token': token },
      body: '{"jsonrpc":"2.0","id":1,"method":"getSlot"}',
      signal: AbortSignal.timeout(callMsMax),
    })
    await answer.arrayBuffer()
    return answer.status
  } catch {
    return null
  }
}

async function callAt(
  gateway: Gateway,
  endpoint: string,
  token: string,
  method: string,
  params: unknown[],
): Promise<{ result?: unknown } | null> {
  try {
    const answer = await fetch(gateway.server.url(endpoint), {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-token': token },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
      signal: AbortSignal.timeout(callMsMax),
    })
    return (await answer.json()) as { result?: unknown }
  } catch {
    return null
  }
}

/** Lines of a query's answer; null when it failed. */
export async function queryAt(
  gateway: Gateway,
  { credentials }: Stage,
  sql: string,
  answered: (status: number) => void = () => {},
): Promise<string[] | null> {
  const { user, password } = credentials.indexer
  try {
    const response = await fetch(gateway.server.url('indexer'), {
      method: 'POST',
      headers: {
        'x-token': credentials.token,
        'x-clickhouse-user': user,
        'x-clickhouse-key': password,
      },
      body: `${sql} FORMAT TSV`,
      signal: AbortSignal.timeout(6 * callMsMax),
    })
    answered(response.status)
    const text = await response.text()
    return response.ok ? text.split('\n').filter((line) => line !== '') : null
  } catch {
    return null
  }
}
