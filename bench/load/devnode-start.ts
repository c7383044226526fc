// From a cold start of `sluice devnode`, with a fresh ledger, to the first confirmed transaction,
// beside a process that loads litesvm and executes one. Thread: main of the bench process.
import { encodeBase58 } from '../../src/chain/solana/base58.ts'
import { startProcess } from '../../test/testkit/process.ts'
import type { Bench, Measurement } from '../lib/bench.ts'
import { DevnodeProcess } from '../lib/devnode-process.ts'
import { verifyLanded, wallets } from '../lib/transfers.ts'

const plain = 'litesvm process, first transaction executed'
const ours = 'sluice devnode, first transaction confirmed'
/** The time a user takes for immediate, on two cores that have nothing else to do. */
const startUsMax = 2_000_000

export const bench: Bench = {
  name: 'devnode-start',
  question: 'How long does it take from the command to the first confirmed transaction?',
  cores: 2,
  baseline: { name: plain, run: () => timed(firstInVm) },
  candidates: [
    {
      name: ours,
      missing: ({ target }) => (target === undefined ? undefined : 'a deployment is measured'),
      run: () => timed(firstInDevnode),
    },
  ],
  goals: [{ contender: ours, figure: 'p50', atMost: startUsMax }],
  verify: verifyLanded,
}

interface Started {
  readonly landed: number
  stop(): Promise<void>
}

async function timed(start: () => Promise<Started>): Promise<Measurement> {
  const beganMs = performance.now()
  const { landed, stop } = await start()
  const us = (performance.now() - beganMs) * 1000
  await stop()
  const latencyUs = { p50: us, p99: us, p999: us }
  return { opsPerSecond: 1e6 / us, latencyUs, evidence: { asked: 1, landed } }
}

async function firstInVm(): Promise<Started> {
  const child = startProcess(new URL('./clients/plain-vm.js', import.meta.url))
  return { landed: await child.call<number>('first'), stop: () => child.stop() }
}

async function firstInDevnode(): Promise<Started> {
  const node = await DevnodeProcess.start()
  const key = encodeBase58(wallets[0]!.publicKey)
  const signature = await node.call<string>('requestAirdrop', key, 1_000_000_000)
  return { landed: await node.confirmed([signature]), stop: () => node.stop() }
}
