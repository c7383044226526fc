// How fast the embedded chain takes transactions. Thread: main of the bench process.
// Transactions are signed before the clock starts; calls are synchronous, one at a time.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Account, LiteSvm } from 'litesvm/dist/internal.js'
import { systemClock } from '../../src/base/clock.ts'
import { buildTransaction, transferInstruction } from '../../src/devnode/build.ts'
import { type ChainSection, chainSection } from '../../src/devnode/config.ts'
import { solanaFeed } from '../../src/devnode/feed.ts'
import { StatsCounter } from '../../src/devnode/reports.ts'
import { type RunningChain, startEmbeddedChain } from '../../src/devnode/start.ts'
import { openSolanaHub } from '../../src/geyser/hub.ts'
import { Keypair } from '../../src/solana/keypair.ts'
import { programs } from '../../src/solana/programs.ts'
import { silentLog } from '../../src/telemetry/log.ts'
import type { Bench, Contender, Measurement } from '../lib/bench.ts'
import { LatencyHistogram } from '../lib/histogram.ts'

const perRoundMax = 12_000
const wallets = Array.from({ length: 32 }, (_, index) =>
  Keypair.derive(new Uint8Array(32).fill(8), `bench ${index}`),
)
let count = 0

/** Transfers that differ from one another, each with a good signature. */
function transfers(blockhash: Uint8Array, howMany: number): Uint8Array[] {
  return Array.from({ length: howMany }, () => {
    const from = wallets[count % wallets.length]!
    const to = wallets[(count + 1) % wallets.length]!.publicKey
    const instructions = [transferInstruction(from.publicKey, to, BigInt(1_000 + count++))]
    return buildTransaction({ signers: [from], blockhash, instructions })
  })
}

/** The VM alone in this process, one after the other, with its own check of signatures. */
const plainVm: Contender = {
  name: 'litesvm with its own check',
  async run({ seconds }) {
    const vm = new LiteSvm()
    vm.setBlockhashCheck(false)
    for (const { publicKey } of wallets)
      vm.setAccount(
        publicKey,
        new Account(10n ** 12n, new Uint8Array(0), programs.system, false, 0n),
      )
    const prepared = transfers(new Uint8Array(32), Math.min(perRoundMax, seconds * 3_000))
    const latency = new LatencyHistogram()
    let landed = 0
    let asked = 0
    const began = performance.now()
    const endMs = began + seconds * 1000
    for (const bytes of prepared) {
      const at = performance.now()
      if (at > endMs) break
      asked += 1
      if (!('err' in vm.sendVersionedTransaction(bytes))) landed += 1
      latency.recordNs((performance.now() - at) * 1e6)
    }
    return measured({ asked, landed, elapsedMs: performance.now() - began, latency })
  },
}

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
      const prepared = transfers(hash, Math.min(perRoundMax, seconds * 4_000))
      const latency = new LatencyHistogram()
      let landed = 0
      let next = 0
      const began = performance.now()
      const endMs = began + seconds * 1000
      while (next < prepared.length && performance.now() < endMs) {
        const bytes = prepared[next++]!
        const at = performance.now()
        const outcome = chain.submit(bytes, { isVerified })
        latency.recordNs((performance.now() - at) * 1e6)
        if (outcome.ok && outcome.value.err === null) landed += 1
      }
      return measured({ asked: next, landed, elapsedMs: performance.now() - began, latency })
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
  verify({ evidence }) {
    const { asked, landed } = evidence as { asked: number; landed: number }
    if (asked === 0) return 'nothing was asked'
    return landed === asked ? undefined : `${landed} of ${asked} landed`
  },
}

function measured(round: {
  asked: number
  landed: number
  elapsedMs: number
  latency: LatencyHistogram
}): Measurement {
  const { asked, landed, elapsedMs, latency } = round
  return {
    opsPerSecond: (asked / elapsedMs) * 1000,
    latencyUs: latency.summary(),
    evidence: { asked, landed },
  }
}
