// A chain for subscriptions whose hub moves when the test publishes to it.
import { openSolanaHub } from '../../src/streams/geyser/hub.ts'
import type { PubsubChain } from '../../src/streams/pubsub/chain.ts'

export function idleChain(changes: Partial<PubsubChain> = {}): PubsubChain {
  return {
    hub: openSolanaHub({ replaySlots: 0, replayBytesMax: 0 }),
    isUp: () => true,
    slot: () => 0,
    signatureStatus: async () => null,
    readAccounts: async (keys) => keys.map(() => null),
    ...changes,
  }
}
