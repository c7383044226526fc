// A chain for subscriptions whose hub moves when the test publishes to it.
import { newestShapes } from '../../src/chain/solana/version.ts'
import { openSolanaHub } from '../../src/streams/geyser/hub.ts'
import type { PubsubChain } from '../../src/streams/pubsub/chain.ts'

export function idleChain(changes: Partial<PubsubChain> = {}): PubsubChain {
  return {
    hub: openSolanaHub({ replaySlots: 0, replayBytesMax: 0 }),
    isUp: () => true,
    shapes: () => newestShapes,
    slot: () => 0,
    signatureStatus: async () => null,
    readAccounts: async (keys) => keys.map(() => null),
    ...changes,
  }
}
