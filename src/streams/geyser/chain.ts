// The chain that a caller reads, and its fan-out, opened with the first stream.

import { codesOf } from '../../base/codes.ts'
import type { Refusal } from '../../base/errors.ts'
import { type GrpcStatus, grpcCode } from '../../base/transport/grpc-status.ts'
import type { SolanaHeads, SolanaUpdate } from '../../chain/solana/updates.ts'
import type { Hub, KeptStream } from '../hub/hub.ts'
import { FanOut } from './fan-out.ts'
import type { GrpcMeters } from './meters.ts'
import type { PublishedSlots } from './position.ts'

export interface GrpcChain {
  readonly hub: Hub<SolanaUpdate>
  /** What was published earlier than the hub remembers; none where it is turned off. */
  readonly streamLog?: KeptStream<SolanaUpdate> | null
  /** Where live readers are, for consumers; none without a stream log. */
  readonly published?: PublishedSlots | null
  readonly heads: SolanaHeads
  /** False when its source is disconnected for too long: cached state is stale by then. */
  isUp(): boolean
  /** Calls the listener when `isUp` has changed; returns how to unsubscribe. */
  watch(listener: () => void): () => void
  /** The validator's version; '' when unknown. */
  solanaVersion(): string
}

export class FanOuts {
  readonly #byChain = new Map<GrpcChain, { fanOut: FanOut; unwatch(): void }>()
  readonly #meters: GrpcMeters
  readonly #changed: (chain: GrpcChain) => void

  /** `changed` is called when a chain with a fan-out goes down or comes back up. */
  constructor(meters: GrpcMeters, changed: (chain: GrpcChain) => void) {
    this.#meters = meters
    this.#changed = changed
    meters.groups.count = () => {
      let count = 0
      for (const { fanOut } of this.#byChain.values()) count += fanOut.groups
      return count
    }
  }

  of(chain: GrpcChain): FanOut {
    const known = this.#byChain.get(chain)
    if (known !== undefined) return known.fanOut
    const fanOut = new FanOut(chain.hub, this.#meters)
    const unwatch = chain.watch(() => this.#changed(chain))
    this.#byChain.set(chain, { fanOut, unwatch })
    return fanOut
  }

  stop(): void {
    for (const { fanOut, unwatch } of this.#byChain.values()) {
      unwatch()
      fanOut.stop()
    }
  }
}

const { unavailable } = grpcCode
export const noChain: GrpcStatus = { code: unavailable, details: 'no chain is attached' }

/** Ends streams instead of leaving them silent: geyser clients reconnect with from_slot. */
export const chainDown: GrpcStatus = {
  code: unavailable,
  details: 'the node behind this stream is not reachable, subscribe again with from_slot',
}

// The gRPC status of a refusal.

export function statusOf(refusal: Refusal): GrpcStatus {
  const status = { code: codesOf[refusal.kind].grpc, details: refusal.message }
  const { retryAfterMs } = refusal
  return retryAfterMs === undefined ? status : { ...status, retryAfterMs }
}
