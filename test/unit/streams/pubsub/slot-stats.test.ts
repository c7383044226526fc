import { expect, it } from 'vitest'
import { blockMetaUpdate, entryUpdate } from '../../../../src/chain/solana/received-batch.ts'
import { SlotNotifications } from '../../../../src/streams/pubsub/block-notifications.ts'

it('a frozen slot has its stats, however many entries it has', () => {
  const moment = { slot: 5, createdAtMs: 0 }
  const hash = new Uint8Array(32)
  const [empty, full] = [0, 7].map((executedTransactionCount, index) => {
    const counts = { executedTransactionCount, startingTransactionIndex: 0 }
    return entryUpdate(moment, { index, numHashes: 1, hash, ...counts })
  })
  const entries = [...Array.from({ length: 150_000 }, () => empty!), full!]
  const meta = blockMetaUpdate(moment, {
    ...{ blockhash: 'a', parentSlot: 4, parentBlockhash: 'b', blockHeight: 5, blockTime: 1 },
    ...{ executedTransactionCount: 7, entriesCount: entries.length, rewards: [] },
  })
  const sent: string[] = []
  const notifications = new SlotNotifications({
    index: { slotsUpdates: new Set([{}]) },
    notifier: { send: (_feed: unknown, result: string) => sent.push(result) },
    meters: { examined: 0 },
    rootAtStart: () => 0,
    // Reason for the cast: nothing else is read for it.
  } as never)
  const content = { meta, transactions: [], accounts: [], entries }
  notifications.takeBlock({ kind: 'block', ...moment, ...content })
  expect(JSON.parse(sent[0]!).stats).toMatchObject({
    maxTransactionsPerEntry: 7,
    numTransactionEntries: 1,
  })
})
