// Signed transfers between a few wallets, and what plain litesvm makes of them.
// Thread: main of the bench process.
import { Account, LiteSvm } from 'litesvm/dist/internal.js'
import { Keypair } from '../../src/chain/solana/keypair.ts'
import { programs } from '../../src/chain/solana/programs.ts'
import { buildTransaction, transferInstruction } from '../../src/devnode/build.ts'
import type { Contender, Measurement } from './bench.ts'
import { LatencyHistogram } from './histogram.ts'

const perRoundMax = 12_000
export const wallets = Array.from({ length: 32 }, (_, index) =>
  Keypair.derive(new Uint8Array(32).fill(8), `bench ${index}`),
)
let count = 0

/** Transfers that differ from one another, each with a good signature. */
export function transfers(blockhash: Uint8Array, howMany: number): Uint8Array[] {
  return Array.from({ length: Math.min(perRoundMax, Math.ceil(howMany)) }, () => {
    const from = wallets[count % wallets.length]!
    const to = wallets[(count + 1) % wallets.length]!.publicKey
    const instructions = [transferInstruction(from.publicKey, to, BigInt(1_000 + count++))]
    return buildTransaction({ signers: [from], blockhash, instructions })
  })
}

/** A VM in which the wallets have money. */
export function fundedVm(): LiteSvm {
  const vm = new LiteSvm()
  vm.setBlockhashCheck(false)
  const data = new Uint8Array(0)
  for (const { publicKey } of wallets)
    vm.setAccount(publicKey, new Account(10n ** 12n, data, programs.system, false, 0n))
  return vm
}

/** The VM alone in this process, one after the other, with its own check of signatures. */
export const plainVm: Contender = {
  name: 'litesvm with its own check',
  async run({ seconds }) {
    const vm = fundedVm()
    const prepared = transfers(new Uint8Array(32), seconds * 3_000)
    return measureEach(prepared, seconds, (bytes) => !('err' in vm.sendVersionedTransaction(bytes)))
  },
}

/** Submits one after the other, at most for so long; `submit` returns whether it landed. */
export function measureEach(
  transactions: readonly Uint8Array[],
  seconds: number,
  submit: (bytes: Uint8Array) => boolean,
): Measurement {
  const latency = new LatencyHistogram()
  let landed = 0
  let asked = 0
  const began = performance.now()
  const endMs = began + seconds * 1000
  for (const bytes of transactions) {
    const at = performance.now()
    if (at > endMs) break
    asked += 1
    if (submit(bytes)) landed += 1
    latency.recordNs((performance.now() - at) * 1e6)
  }
  const opsPerSecond = (asked / (performance.now() - began)) * 1000
  return { opsPerSecond, latencyUs: latency.summary(), evidence: { asked, landed } }
}

export function verifyLanded({ evidence }: Measurement): string | undefined {
  const { asked, landed } = evidence as { asked: number; landed: number }
  if (asked === 0) return 'nothing was asked'
  return landed === asked ? undefined : `${landed} of ${asked} landed`
}
