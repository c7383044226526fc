// geyser.Geyser as a validator with the yellowstone plugin serves it: no quota, and no token unless
// the node has a secret.
// Thread: main of the devnode.
import type { Clock } from '../base/clock.ts'
import { refuse } from '../base/errors.ts'
import type { Running } from '../base/running.ts'
import type { Log } from '../base/telemetry/log.ts'
import type { Meters } from '../base/telemetry/meters.ts'
import { openGrpcEndpoint } from '../base/transport/grpc.ts'
import { type GrpcStatus, grpcCode, grpcEncodings } from '../base/transport/grpc-stream.ts'
import type { ListenAddress } from '../base/transport/listen-address.ts'
import { loadCodec } from '../streams/geyser/codec.ts'
import { type GrpcChain, statusOf } from '../streams/geyser/fan-out.ts'
import { declareGrpcMeters } from '../streams/geyser/meters.ts'
import { GeyserService } from '../streams/geyser/service.ts'
import { secretCheck } from './pubsub-server.ts'

export interface GeyserServerDeps {
  readonly chain: GrpcChain
  readonly meters: Meters
  /** The version of the package. */
  readonly version: string
  /** What a caller must send as x-token; null serves everybody. */
  readonly secret: string | null
  readonly clock: Clock
  readonly log: Log
}

const mebibyte = 1024 * 1024
/** A local node serves every client; these bounds only protect it from mistakes. */
const filterLimits = {
  filtersMax: 1_000,
  accountsMax: 100_000,
  ownersMax: 10_000,
  dataSlicesMax: 1_000,
  cuckooBytesMax: 4 * mebibyte,
  any: true,
  accountReject: new Set<string>(),
  ownerReject: new Set<string>(),
}
const connectionsMax = 10_000

export async function startGeyserServer(
  listen: ListenAddress,
  deps: GeyserServerDeps,
): Promise<Running> {
  const { chain, clock, log, version } = deps
  const isAdmitted = secretCheck(deps.secret)
  const service = new GeyserService<null>({
    codec: loadCodec(),
    limits: filterLimits,
    keysMax: () => filterLimits.accountsMax,
    backlogBytesMax: 64 * mebibyte,
    pingMs: 10_000,
    version,
    meters: declareGrpcMeters(deps.meters),
    clock,
    chainOf: () => chain,
    meter() {},
    charge: () => null,
    lease: () => () => {},
  })
  const endpoint = await openGrpcEndpoint<null>({
    ...listen,
    certificates: null,
    messageBytesMax: 8 * mebibyte,
    keepaliveMs: 30_000,
    keepaliveTimeoutMs: 10_000,
    connectionIdleMs: 300_000,
    connectionsPerAddressMax: connectionsMax,
    compression: grpcEncodings,
    clientAddress: (peer) => peer,
    isProxy: () => false,
    admit: ({ xToken }) =>
      isAdmitted(xToken)
        ? { ok: true, caller: null, leave() {} }
        : { ok: false, status: unauthenticated },
    methods: service.methods,
    log,
  })
  return {
    address: endpoint.address,
    async stop() {
      service.stop(stopping)
      await endpoint.stop()
    },
  }
}

const unauthenticated = statusOf(
  refuse('unauthenticated', 'x-token', 'x-token is missing or wrong').refusal,
)
const stopping: GrpcStatus = { code: grpcCode.unavailable, details: 'the node is stopping' }
