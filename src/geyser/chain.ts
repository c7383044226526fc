// The chain that a caller reads: the embedded one, or that behind a set of nodes. Thread: main.
// The topology says which is whose; here each gets its fan-out with the first stream that reads it.
import type { SolanaHeads, SolanaUpdate } from '../solana/updates.ts'
import type { Hub } from '../stream/hub.ts'
import { type GrpcStatus, grpcCode } from '../transport/grpc-status.ts'
import { FanOut } from './fan-out.ts'
import type { GrpcMeters } from './meters.ts'

export interface GrpcChain {
  readonly hub: Hub<SolanaUpdate>
  readonly heads: SolanaHeads
  /** False while its source is gone for longer than a moment: what is known is old by then. */
  isUp(): boolean
  /** Calls when `isUp` has changed. Gives back how to stop that. */
  watch(listener: () => void): () => void
  /** What the validator calls its version; '' when it is not known. */
  solanaVersion(): string
}

export class FanOuts {
  readonly #byChain = new Map<GrpcChain, { fanOut: FanOut; unwatch(): void }>()
  readonly #meters: GrpcMeters
  readonly #changed: (chain: GrpcChain) => void

  /** `changed` hears of each chain with a fan-out that went down or came back. */
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

/**
 * Where a stream or a call cannot be served now. Clients of geyser services come back by
 * themselves, with from_slot; a stream that is silent without a word is what they complain about.
 */
export const chainDown: GrpcStatus = {
  code: unavailable,
  details: 'the node behind this stream is not reachable, subscribe again with from_slot',
}
