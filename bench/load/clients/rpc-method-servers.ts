// The servers of the rpc-methods bench: an embedded chain of their own with our endpoint, or with
// node:http with the same handler. Thread: a process of its own.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { systemClock } from '../../../src/base/clock.ts'
import { Commitment } from '../../../src/base/commitment.ts'
import { silentLog } from '../../../src/base/telemetry/log.ts'
import { encodeBase58 } from '../../../src/chain/solana/base58.ts'
import { programs } from '../../../src/chain/solana/programs.ts'
import type { ChainSection } from '../../../src/devnode/config.ts'
import { StatsCounter } from '../../../src/devnode/reports.ts'
import { embeddedRpcMethods } from '../../../src/devnode/rpc/methods.ts'
import { startEmbeddedChain } from '../../../src/devnode/start.ts'
import { serveBench } from '../../../test/testkit/process.ts'
import { answering, type Started, startDoor, startNodeHttp } from './rpc-parts.ts'

export interface StartedChain extends Started {
  /** Token accounts that the chain was born with. */
  readonly accounts: readonly string[]
}

const accountsAsked = 20
const section: ChainSection = {
  source: 'embedded',
  traffic: 0,
  slotMs: 400,
  slotsPerEpoch: 432_000,
  historySlots: 2_000,
  historyBytes: 256 << 20,
  snapshotSlots: 1_500,
  airdropLamports: 1_000_000_000_000,
}

serveBench({
  ours: () => start(startDoor),
  node: () => start(startNodeHttp),
})

async function start(open: typeof startDoor): Promise<StartedChain> {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-bench-'))
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }))
  const nothing = () => {}
  const { chain } = await startEmbeddedChain(section, {
    path: folder,
    isFresh: true,
    release: 'bench',
    sink: {
      status: nothing,
      account: nothing,
      transaction: nothing,
      entry: nothing,
      block: nothing,
    },
    counters: new StatsCounter(),
    clock: systemClock,
    log: silentLog,
  })
  const nowhere = { host: '127.0.0.1', rpc: 0, ws: 0, udp: 0, shredVersion: 1 }
  const started = await open(answering(embeddedRpcMethods(chain, () => nowhere)))
  const accounts: string[] = []
  for (const { pubkey } of chain.ledger.accountsByOwner(programs.token, Commitment.processed))
    if (accounts.length < accountsAsked) accounts.push(encodeBase58(pubkey))
  return { ...started, accounts }
}
