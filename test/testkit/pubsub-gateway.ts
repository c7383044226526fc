// A gateway's subscriptions without sockets, over a hub that the test publishes to and that is its
// own log; and slots of a chain that has all kinds of what is subscribed to.
import { systemClock } from '../../src/base/clock.ts'
import type { Answer } from '../../src/base/jsonrpc/build.ts'
import { silentLog } from '../../src/base/telemetry/log.ts'
import { Meters } from '../../src/base/telemetry/meters.ts'
import { encodeBase58 } from '../../src/chain/solana/base58.ts'
import { programs } from '../../src/chain/solana/programs.ts'
import { accountUpdate } from '../../src/chain/solana/received-batch.ts'
import type { SolanaUpdate } from '../../src/chain/solana/updates.ts'
import { Budget } from '../../src/customers/quota/budget.ts'
import type { PlanValues } from '../../src/customers/subscriptions/plans.ts'
import { Subscriptions } from '../../src/products/websocket/handle.ts'
import { openSolanaHub, publishUpdate } from '../../src/streams/geyser/hub.ts'
import type { KeptStream } from '../../src/streams/hub/hub.ts'
import { declareSubscriptionMeters } from '../../src/streams/pubsub/notifier.ts'
import { budgetOn, type LooseSession, looseSession } from './loose-session.ts'
import { idleChain } from './pubsub-chain.ts'
import { SyntheticSolana } from './synthetic-solana.ts'

export const roomy = { subscriptionsPerConnection: 1_000, distinctSubscriptions: 0 }

export class PubsubGateway {
  readonly hub = openSolanaHub({ replaySlots: 150, replayBytesMax: 2 ** 28 })
  readonly meters = declareSubscriptionMeters(new Meters())
  /** Replays that were started. */
  replays = 0
  readonly #chain = idleChain({
    hub: this.hub,
    streamLog: this.#log(),
  })
  readonly #sessions: LooseSession[] = []
  readonly #subscriptions = new Subscriptions({
    meters: this.meters,
    clock: systemClock,
    log: silentLog,
  })

  constructor() {
    this.#subscriptions.usePublisher((topic, message, atOnce) => {
      const joined = () => this.#sessions.filter(({ topics }) => topics.has(topic))
      for (const session of atOnce ?? joined()) session.sendNow(message)
    })
  }

  /** The hub itself, and how often it was read. */
  #log(): KeptStream<SolanaUpdate> {
    const { hub } = this
    const count = () => this.replays++
    return {
      get oldestSlot() {
        return hub.oldestSlot
      },
      replay({ commitment, fromSlot, at }) {
        count()
        if (at !== undefined) return hub.replay(commitment, fromSlot, at)
        return hub.replay(commitment, fromSlot)
      },
    }
  }

  /** Of a customer of its own unless a budget is given. */
  connect(of: Budget | Partial<PlanValues> = roomy): LooseSession {
    const budget = of instanceof Budget ? of : budgetOn(of)
    const session = looseSession(budget, this.#subscriptions.engineOf(this.#chain))
    this.#sessions.push(session)
    return session
  }

  ask(session: LooseSession, topic: string, params: readonly unknown[]): Answer {
    return this.call(session, `${topic.split(' ')[0]}Subscribe`, params)
  }

  call(session: LooseSession, method: string, params: readonly unknown[]): Answer {
    const call = { method, params, paramsText: '', id: '1' }
    return this.#subscriptions.methods[method]!(call, session) as Answer
  }

  publish(updates: Iterable<SolanaUpdate>): void {
    for (const update of updates) publishUpdate(this.hub, update)
  }
}

const chain = new SyntheticSolana({
  seed: 7,
  accounts: 12,
  finalizedAfter: 6,
  isSkipped: (slot) => slot % 5 === 0,
})
/** Made once: a test takes longer to make them than to publish them. */
const slotsMade: SolanaUpdate[][] = []

/** The first slots of one chain, 6 not finalized; every fifth is skipped. */
export function slotsOf(count: number): SolanaUpdate[][] {
  while (slotsMade.length < count) slotsMade.push(chain.next().map(withToken))
  return slotsMade.slice(0, count)
}

/** A write of data that looks like a token account is one, of a wallet that some balances name. */
function withToken(update: SolanaUpdate): SolanaUpdate {
  if (update.kind !== 'account' || update.data.length !== 165) return update
  const data = Buffer.from(update.data)
  data.fill(0, 72)
  data[108] = 1
  data.set(data[0]! % 2 === 0 ? wallet! : account!, 32)
  return accountUpdate(update, { ...update, owner: programs.token, data })
}

const { owners, keys } = new SyntheticSolana({ seed: 7, accounts: 12 })
const [owner] = owners
const [account, wallet] = keys
/** Of transactions. */
export const chainKeys = keys

/** Of subscriptions to something that the slots have. */
export function paramsOf(topic: string, config: object): unknown[] {
  switch (topic) {
    case 'account':
      return [encodeBase58(account!), { encoding: 'base64', ...config }]
    case 'program':
      return [encodeBase58(owner!), { encoding: 'base64', ...config }]
    case 'account of every write':
      return [encodeBase58(account!), { encoding: 'base64', allWrites: true, ...config }]
    case 'program of every write':
      return [encodeBase58(owner!), { encoding: 'base64', allWrites: true, ...config }]
    case 'tokenOwner':
      return [encodeBase58(wallet!), { encoding: 'base64', ...config }]
    case 'logs':
      return ['allWithVotes', config]
    case 'block':
      return ['all', { transactionDetails: 'signatures', ...config }]
    case 'transaction':
      return [{}, { transactionDetails: 'signatures', blockTime: true, ...config }]
    default:
      return [config]
  }
}

/** Topics and commitments that have cursors. */
export const resumable = [
  ...[
    ...['account', 'program', 'tokenOwner', 'logs', 'transaction'],
    ...['account of every write', 'program of every write'],
  ].flatMap((topic) =>
    ['processed', 'confirmed', 'finalized'].map((commitment) => [topic, commitment] as const),
  ),
  ['block', 'confirmed'] as const,
  ['block', 'finalized'] as const,
  ['slot', undefined] as const,
  ['root', undefined] as const,
]

export interface CursorNotification {
  readonly result: unknown
  readonly cursor: string
}

export const notifications = (session: LooseSession): CursorNotification[] =>
  session.told.map((text) => JSON.parse(text).params)
