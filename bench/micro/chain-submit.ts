// How fast the embedded chain takes transactions. Thread: main of the bench process.
// Transactions are signed before the clock starts; calls are synchronous, one at a time.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { systemClock } from '../../src/base/clock.ts'
import { silentLog } from '../../src/base/telemetry/log.ts'
import { type ChainSection, chainSection } from '../../src/devnode/config.ts'
import { solanaFeed } from '../../src/devnode/node.ts'
import { StatsCounter } from '../../src/devnode/reports.ts'
import { type RunningChain, startEmbeddedChain } from '../../src/devnode/start.ts'
import { openSolanaHub } from '../../src/streams/geyser/hub.ts'
import type { Bench, Contender } from '../lib/bench.ts'
import { measureEach, plainVm, transfers, verifyLanded, wallets } from '../lib/transfers.ts'

function embedded(name: string, isVerified: boolean): Contender {
  let running: RunningChain | null = null
  const folder = mkdtempSync(join(tmpdir(), 'sluice-bench-chain-'))
  return {
    name,
    async prepare() {
      const hub = openSolanaHub({ replaySlots: 150, replayBytesMax: 64 << 20 })
      const { fields } = chainSection
      const values = Object.entries(fields).map(([key, field]) => [key, field.initial])
      running = await startEmbeddedChain(
        // Reason for the cast: the same keys with their defaults.
        { ...(Object.fromEntries(values) as ChainSection), traffic: 0 },
        {
          path: folder,
          isFresh: false,
          release: 'bench',
          sink: solanaFeed(hub, systemClock),
          counters: new StatsCounter(),
          clock: systemClock,
          log: silentLog,
        },
      )
      for (const { publicKey } of wallets)
        running.chain.requestAirdrop(publicKey, 1_000_000_000_000n)
    },
    async run({ seconds }) {
      const { chain } = running!
      const { hash } = chain.ledger.newest.facts
      return measureEach(transfers(hash, seconds * 4_000), seconds, (bytes) => {
        const outcome = chain.submit(bytes, { isVerified })
        return outcome.ok && outcome.value.err === null
      })
    },
    async close() {
      await running?.stop()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

export const bench: Bench = {
  name: 'chain-submit',
  question: 'How many signed transfers a second does the embedded chain check, run and record?',
  cores: 1,
  baseline: plainVm,
  candidates: [
    embedded('submit, signatures verified', false),
    embedded('submit, signatures known good', true),
  ],
  verify: verifyLanded,
}
