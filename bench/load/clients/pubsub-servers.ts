// The senders of the pubsub bench: our subscriptions, and the plain way, a loop over
// all subscriptions that encodes for each. Thread: main of a process of its own.
//
// Every socket that opens is subscribed to one account: all to the same, or each to its own.
import { systemClock } from '../../../src/base/clock.ts'
import { silentLog } from '../../../src/base/telemetry/log.ts'
import { Meters } from '../../../src/base/telemetry/meters.ts'
import { type HttpEndpoint, openHttpEndpoint } from '../../../src/base/transport/http-endpoint.ts'
import { jsonHead, Reply } from '../../../src/base/transport/reply.ts'
import type { Socket } from '../../../src/base/transport/socket.ts'
import { encodeBase58 } from '../../../src/chain/solana/base58.ts'
import { accountUpdate, slotUpdate } from '../../../src/chain/solana/update-build.ts'
import { type AccountUpdate, slotStatus } from '../../../src/chain/solana/updates.ts'
import { Budget } from '../../../src/customers/quota/budget.ts'
import { Plan } from '../../../src/customers/quota/plan.ts'
import { unlimitedPlan } from '../../../src/customers/subscriptions/plans.ts'
import type { Session } from '../../../src/products/websocket/handle.ts'
import { Subscriptions } from '../../../src/products/websocket/subscriptions.ts'
import { openSolanaHub, publishUpdate } from '../../../src/streams/geyser/hub.ts'
import { declareSubscriptionMeters } from '../../../src/streams/pubsub/meters.ts'
import { serveBench } from '../../../test/testkit/process.ts'

export type PubsubKind = 'index' | 'loop'

export interface Opening {
  readonly kind: PubsubKind
  /** Accounts that the sockets are spread over. */
  readonly accounts: number
}

interface Sender {
  join(socket: Socket<null>, account: number): void
  send(update: AccountUpdate): void
  begin?(endpoint: HttpEndpoint<null>): void
}

const dataBytes = 165
const updatesPerTurn = 32
/** A socket with more than this unsent is waited for, so that a flood is paced by its readers. */
const unsentBytesMax = 512 * 1024
const turnsPerLook = 8
const window = { window: 0, credits: 0, startsAtMs: 0, endsAtMs: Number.MAX_SAFE_INTEGER }
const budget = new Budget('bench', new Plan(unlimitedPlan), window, systemClock)
let endpoint: HttpEndpoint<null>
let sender: Sender
let accounts: AccountUpdate[] = []
let opened = 0
let slot = 0

serveBench({ open, send })

async function open({ kind, accounts: count }: Opening): Promise<number> {
  accounts = Array.from({ length: count }, (_, index) => {
    const pubkey = Buffer.alloc(32)
    pubkey.writeUInt32BE(index + 1)
    return accountUpdate(
      { slot: 0, createdAtMs: 0 },
      {
        pubkey,
        lamports: 5_000_000_000n,
        owner: Buffer.alloc(32, 7),
        executable: false,
        rentEpoch: 2n ** 64n - 1n,
        data: Buffer.alloc(dataBytes, 3),
        writeVersion: 1n,
        txnSignature: null,
      },
    )
  })
  sender = kind === 'index' ? indexSender() : loopSender()
  const nothing = new Reply(404, jsonHead, '{}')
  endpoint = await openHttpEndpoint<null>({
    product: 'bench',
    listen: { host: '127.0.0.1', port: 0 },
    tls: null,
    trustedProxies: [],
    clock: systemClock,
    log: silentLog,
    http: { admit: () => null, error: () => nothing, routes: [] },
    sockets: [
      {
        path: '/',
        inboundBytesMax: 4096,
        unsentBytesMax: 16 * 1024 * 1024,
        pingMs: 30_000,
        silenceMsMax: 60_000,
        perAddressMax: 0,
        upgrade: () => ({ state: null, protocol: '' }),
        open: (socket: Socket<null>) => sender.join(socket, opened++ % accounts.length),
        message: () => {},
        close: () => {},
      },
    ],
  })
  sender.begin?.(endpoint)
  return endpoint.address.port
}

/** Publishes updates of the accounts in turn for the given time; returns how many. */
async function send({ seconds }: { seconds: number }): Promise<number> {
  const endMs = performance.now() + seconds * 1000
  let sent = 0
  while (performance.now() < endMs) {
    for (let count = 0; count < updatesPerTurn; count++) {
      const update = accounts[sent++ % accounts.length]!
      sender.send({ ...update, slot: ++slot })
    }
    await nextTurn()
    // Not in every turn: to ask a thousand sockets costs as much as to send.
    if (sent % (updatesPerTurn * turnsPerLook) !== 0) continue
    while ([...endpoint.sockets.open].some((socket) => socket.unsentBytes > unsentBytesMax))
      await nextTurn()
  }
  return sent
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}

function indexSender(): Sender {
  const hub = openSolanaHub({ replaySlots: 0, replayBytesMax: 0 })
  const subscriptions = new Subscriptions({
    meters: declareSubscriptionMeters(new Meters()),
    clock: systemClock,
    log: silentLog,
  })
  const engine = subscriptions.engineOf({
    hub,
    isUp: () => true,
    slot: () => 0,
    signatureStatus: async () => null,
    readAccounts: async () => [],
  })
  return {
    begin: ({ sockets }) =>
      subscriptions.usePublisher((topic, message) => sockets.publish(topic, message)),
    join(socket, account) {
      const key = encodeBase58(accounts[account]!.pubkey)
      const params = [key, { encoding: 'base64', commitment: 'processed' }]
      const call = { method: '', params, paramsText: '', id: '1' }
      subscriptions.methods.accountSubscribe!(call, sessionOf(socket, engine))
    },
    send(update) {
      publishUpdate(hub, update)
      // Accounts are notified when their slot is complete.
      const at = { slot: update.slot, createdAtMs: update.createdAtMs }
      publishUpdate(hub, slotUpdate(at, { parent: null, status: slotStatus.processed }))
    },
  }
}

/** A connection of a customer without customer. */
function sessionOf(socket: Socket<null>, engine: Session['engine']): Session {
  return {
    budget,
    engine,
    notify: (message) => void socket.send(message),
    join: (topic) => socket.subscribe(topic),
    leave: (topic) => socket.unsubscribe(topic),
    checkUnsent: () => void socket.unsentBytes,
    onEnd() {},
  }
}

function loopSender(): Sender {
  const all: { socket: Socket<null>; key: string; commitment: string; id: number }[] = []
  return {
    join(socket, account) {
      const key = encodeBase58(accounts[account]!.pubkey)
      all.push({ socket, key, commitment: 'processed', id: all.length })
    },
    send(update) {
      const key = encodeBase58(update.pubkey)
      for (const subscription of all) {
        if (subscription.commitment !== 'processed' || subscription.key !== key) continue
        const value = {
          lamports: Number(update.lamports),
          data: [Buffer.from(update.data).toString('base64'), 'base64'],
          owner: encodeBase58(update.owner),
          executable: update.executable,
          rentEpoch: Number(update.rentEpoch),
          space: update.data.length,
        }
        const result = { context: { slot: update.slot }, value }
        const params = { result, subscription: subscription.id }
        const message = { jsonrpc: '2.0', method: 'accountNotification', params }
        subscription.socket.send(JSON.stringify(message))
      }
    },
  }
}
