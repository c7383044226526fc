// The servers of the pubsub-relay bench: a node, our relay before it, and the naive one that has a
// connection to the node for each of its customers and writes every notification anew.
// Thread: main of a process of its own for each.
//
// Every socket that opens at a relay is subscribed to the one account there is; the node answers
// subscribe calls, or subscribes every socket itself when it is measured without a relay.
import { WebSocket } from 'undici'
import { systemClock } from '../../../src/base/clock.ts'
import { openSolanaHub } from '../../../src/geyser/hub.ts'
import { type Answer, answerMessage } from '../../../src/jsonrpc/build.ts'
import { parseRequests } from '../../../src/jsonrpc/parse.ts'
import type { Session } from '../../../src/products/websocket/handle.ts'
import { Subscriptions } from '../../../src/products/websocket/subscriptions.ts'
import { declareSubscriptionMeters } from '../../../src/pubsub/meters.ts'
import { Budget } from '../../../src/quota/budget.ts'
import { Plan } from '../../../src/quota/plan.ts'
import { encodeBase58 } from '../../../src/solana/base58.ts'
import { accountUpdate } from '../../../src/solana/update-build.ts'
import type { AccountUpdate } from '../../../src/solana/updates.ts'
import { unlimitedPlan } from '../../../src/subscriptions/plans.ts'
import { silentLog } from '../../../src/telemetry/log.ts'
import { Meters } from '../../../src/telemetry/meters.ts'
import { type Door, openDoor } from '../../../src/transport/door.ts'
import { jsonHead, Reply } from '../../../src/transport/reply.ts'
import type { Socket } from '../../../src/transport/socket.ts'
import type { PubsubNode } from '../../../src/upstream/pubsub/node.ts'
import { UpstreamPubsub } from '../../../src/upstream/pubsub/relay.ts'
import { serveBench } from '../../lib/process.ts'

export type RelayKind = 'shared' | 'naive'

interface Customer {
  session: Session | null
}
type CustomerSocket = Socket<Customer>

const pubkey = Buffer.alloc(32, 9)
const account = accountUpdate(
  { slot: 0, createdAtMs: 0 },
  {
    pubkey,
    lamports: 5_000_000_000n,
    owner: Buffer.alloc(32, 7),
    executable: false,
    rentEpoch: 2n ** 64n - 1n,
    data: Buffer.alloc(165, 3),
    writeVersion: 1n,
    txnSignature: null,
  },
)
const params = [encodeBase58(pubkey), { encoding: 'base64', commitment: 'processed' }]
const subscribing = { method: 'accountSubscribe', params, paramsText: '', id: '1' }

const hub = openSolanaHub({ replaySlots: 0, replayBytesMax: 0 })
const meters = declareSubscriptionMeters(new Meters())
const window = { window: 0, credits: 0, startsAtMs: 0, endsAtMs: Number.MAX_SAFE_INTEGER }
const budget = new Budget('bench', new Plan(unlimitedPlan), window, systemClock)
let slot = 0
let ready = 0

serveBench({
  openNode,
  openRelay,
  /** Updates of the account, told at the node. */
  tell({ count }: { count: number }) {
    for (let at = 0; at < count; at++) hub.content({ ...account, slot: ++slot } as AccountUpdate)
  },
  subscriptions: () => meters.subscriptions().count,
  ready: () => ready,
})

async function openNode({ isOpen }: { isOpen: boolean }): Promise<number> {
  const chain = { signatureStatus: () => null, slot: () => 0 }
  const subscriptions = new Subscriptions({
    solana: { hub, chain, readAccount: () => null },
    relayed: null,
    meters,
    clock: systemClock,
    log: silentLog,
  })
  const door = await opened({
    open: (socket) => void (isOpen && subscribe(subscriptions, socket)),
    message(socket, data) {
      const parsed = parseRequests(data, 1)
      if (parsed.kind !== 'single' || parsed.item.method === null) return
      const { item } = parsed
      // Reason for the casts: our own chain answers at once, and with a text.
      const answer = subscriptions.methods[item.method]!(item, sessionOf(socket)) as Answer
      socket.send(answerMessage(item.id ?? 'null', answer) as string)
    },
  })
  subscriptions.usePublisher((topic, message) => door.sockets.publish(topic, message))
  return door.address.port
}

async function openRelay({ kind, port }: { kind: RelayKind; port: number }): Promise<number> {
  const door = kind === 'shared' ? await openShared(port) : await openNaive(port)
  return door.address.port
}

async function openShared(port: number): Promise<Door<null>> {
  const node: PubsubNode = {
    name: 'default/1',
    weight: 1,
    state: 'up',
    addresses: { ws: `ws://127.0.0.1:${port}`, xToken: '' },
    has: () => true,
    serves: () => true,
    call: () => ({ pause() {}, resume() {}, abort() {} }),
  }
  const set = { name: 'default', nodes: [node], choose: () => null }
  const sets = { sets: () => [set], watch: () => () => {} }
  const subscriptions = new Subscriptions({
    solana: null,
    relayed: {
      relay: new UpstreamPubsub(sets, { clock: systemClock, log: silentLog }),
      setOf: () => 'default',
    },
    meters,
    clock: systemClock,
    log: silentLog,
  })
  const door = await opened({
    open: (socket) => {
      void Promise.resolve(subscribe(subscriptions, socket)).then(() => ready++)
    },
    message() {},
  })
  subscriptions.usePublisher((topic, message) => door.sockets.publish(topic, message))
  return door
}

/** A connection to the node for each customer; what comes over it is read and written anew. */
function openNaive(port: number): Promise<Door<null>> {
  let subscription = 0
  const call = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'accountSubscribe', params })
  return opened({
    open(socket) {
      const id = ++subscription
      const upstream = new WebSocket(`ws://127.0.0.1:${port}`)
      upstream.onopen = () => upstream.send(call)
      upstream.onmessage = ({ data }) => {
        const message = JSON.parse(data)
        if (message.method === undefined) {
          ready++
          return
        }
        message.params.subscription = id
        socket.send(JSON.stringify(message))
      }
    },
    message() {},
  })
}

function opened(on: {
  open(socket: CustomerSocket): void
  message(socket: CustomerSocket, data: Buffer): void
}): Promise<Door<null>> {
  const nothing = new Reply(404, jsonHead, '{}')
  return openDoor<null>({
    product: 'bench',
    place: { host: '127.0.0.1', port: 0 },
    tls: null,
    trustedProxies: [],
    clock: systemClock,
    log: silentLog,
    http: { admit: () => null, error: () => nothing, routes: [] },
    sockets: [
      {
        path: '/',
        inboundBytesMax: 4096,
        unsentBytesMax: 64 * 1024 * 1024,
        pingMs: 30_000,
        silenceMsMax: 60_000,
        perAddressMax: 0,
        upgrade: () => ({ state: { session: null }, protocol: '' }),
        ...on,
        close: () => {},
      },
    ],
  })
}

function subscribe(subscriptions: Subscriptions, socket: CustomerSocket) {
  return subscriptions.methods.accountSubscribe!(subscribing, sessionOf(socket))
}

/** A connection of a customer without customer. */
function sessionOf(socket: CustomerSocket): Session {
  socket.state.session ??= {
    // Reason for the cast: nothing of it is used.
    subscription: {} as never,
    budget,
    notify: (message) => void socket.send(message),
    join: (topic) => socket.subscribe(topic),
    leave: (topic) => socket.unsubscribe(topic),
    checkUnsent: () => void socket.unsentBytes,
    onEnd() {},
  }
  return socket.state.session
}
