// Solana PubSub over WebSocket as a validator serves it: no quota, and no token unless the node has
// a secret.
// Thread: main of the devnode.
//
//   message      -> subscribe methods -> registry -> feed
//   chain update -> hub -> pubsub engine: text once -> published to all subscribers
import type { Clock } from '../base/clock.ts'
import { Commitment } from '../base/commitment.ts'
import { encodedText, errorMessage } from '../base/jsonrpc/build.ts'
import { whole } from '../base/jsonrpc/message-stream.ts'
import type { Log } from '../base/telemetry/log.ts'
import type { Meters } from '../base/telemetry/meters.ts'
import { openHttpEndpoint } from '../base/transport/http-endpoint.ts'
import type { ListenAddress } from '../base/transport/ports.ts'
import { CLOSE_TOO_SLOW, jsonHead, Reply } from '../base/transport/reply.ts'
import type { Socket } from '../base/transport/socket.ts'
import type { SolanaHub } from '../streams/geyser/hub.ts'
import type { PubsubChain } from '../streams/pubsub/chain.ts'
import { PubsubEngine } from '../streams/pubsub/engine.ts'
import { Ids } from '../streams/pubsub/feed-registry.ts'
import { declareSubscriptionMeters } from '../streams/pubsub/meters.ts'
import { subscriptionMethods } from '../streams/pubsub/methods.ts'
import { Notifier } from '../streams/pubsub/notifier.ts'
import type { Session } from '../streams/pubsub/session.ts'
import { secretCheck } from './callers.ts'
import type { Ledger } from './ledger/ledger.ts'
import { UnlimitedMethods, unlimitedCustomer } from './unlimited.ts'

export interface PubsubServerDeps {
  readonly hub: SolanaHub
  readonly ledger: Ledger
  /** Answer of getVersion. */
  readonly version: Readonly<Record<string, string | number>>
  /** What a caller must send as x-token; null serves everybody. */
  readonly secret: string | null
  readonly meters: Meters
  readonly clock: Clock
  readonly log: Log
}

/** As a validator's defaults. */
const inboundBytesMax = 4_096
const unsentBytesMax = 16 * 1024 * 1024
const pingMs = 30_000
const silenceMsMax = 90_000

export async function startPubsubServer(listen: ListenAddress, deps: PubsubServerDeps) {
  const { ledger, clock, log } = deps
  const meters = declareSubscriptionMeters(deps.meters)
  const chain: PubsubChain = {
    hub: deps.hub,
    isUp: () => true,
    slot: (commitment) => ledger.slot(commitment),
    signatureStatus: async (signature) => ledger.signatureStatus(signature),
    readAccounts: async (keys) => keys.map((key) => ledger.account(key, Commitment.processed)),
  }
  const notifier = new Notifier(meters, clock)
  const engine = new PubsubEngine({ ...deps, chain, ids: new Ids(), notifier, meters })
  const version = encodedText(JSON.stringify(deps.version))
  const table = { ...subscriptionMethods<Connection>(() => engine), getVersion: () => version }
  const methods = new UnlimitedMethods<Connection>({ methods: table, log })
  const isAdmitted = secretCheck(deps.secret)
  const refusal = (status: number, message: string) =>
    new Reply(status, jsonHead, errorMessage('null', { code: -32600, message }))
  const endpoint = await openHttpEndpoint<null>({
    product: 'devnode websocket',
    listen,
    tls: null,
    trustedProxies: [],
    clock,
    log,
    http: {
      admit: ({ credentials }) =>
        isAdmitted(credentials.xToken) ? null : refusal(401, 'x-token is missing or wrong'),
      error: refusal,
      routes: [],
    },
    sockets: [
      {
        path: '/',
        inboundBytesMax,
        unsentBytesMax,
        pingMs,
        silenceMsMax,
        perAddressMax: 0,
        upgrade: () => ({ state: new Connection(), protocol: '' }),
        open: (socket: Socket<Connection>) => socket.state.open(socket),
        message: ({ state }: Socket<Connection>, data: Buffer) => {
          const message = methods.serve(data, state)
          if (message instanceof Promise) void message.then((done) => state.answer(whole(done)))
          else state.answer(whole(message))
        },
        close: ({ state }: Socket<Connection>) => state.close(),
      },
    ],
  })
  notifier.usePublisher((topic, message) => endpoint.sockets.publish(topic, message))
  return {
    address: endpoint.address,
    async stop() {
      await endpoint.stop()
      engine.stop()
      notifier.stop()
    },
  }
}

class Connection implements Session {
  readonly budget = unlimitedCustomer
  readonly #endings: (() => void)[] = []
  #socket: Socket<Connection> | null = null

  open(socket: Socket<Connection>): void {
    this.#socket = socket
  }

  /** Sends an answer, unless it is ''. */
  answer(message: string | Uint8Array): void {
    if (message !== '') this.notify(message)
  }

  notify(message: string | Uint8Array): void {
    this.#socket?.send(message)
    this.checkUnsent()
  }

  join(topic: string): void {
    this.#socket?.subscribe(topic)
  }

  leave(topic: string): void {
    this.#socket?.unsubscribe(topic)
  }

  checkUnsent(): void {
    const socket = this.#socket
    if (socket !== null && socket.unsentBytes > unsentBytesMax)
      socket.end(CLOSE_TOO_SLOW, 'the client reads too slowly')
  }

  onEnd(release: () => void): void {
    this.#endings.push(release)
  }

  close(): void {
    this.#socket = null
    for (const end of this.#endings.splice(0)) end()
  }
}
