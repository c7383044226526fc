// Background traffic of the embedded chain: real transactions, signed by wallets of its own.
// Thread: main of the devnode. Of ten, six transfer lamports, three a token, one is a memo; some
// offer a priority fee, so that the fee methods have something to report.
import type { Clock } from '../base/clock.ts'
import {
  buildTransaction,
  type Instruction,
  memoInstruction,
  tokenTransferInstruction,
  transferInstruction,
  unitLimitInstruction,
  unitPriceInstruction,
} from './build.ts'
import type { LocalChain } from './chain.ts'
import { type ChainKeys, trafficDecimals, type Wallet } from './genesis.ts'

/** Short enough for an even flow within a slot. */
const turnMs = 50
/** Of a turn: slots and calls have the rest where there is more to do than the thread can. */
const busyMsMax = 40
/** Transactions that a stall delayed; more are skipped. */
const owedMax = 500

interface TrafficDeps {
  readonly keys: ChainKeys
  readonly perSecond: number
  readonly clock: Clock
}

export class Traffic {
  readonly #chain: LocalChain
  readonly #deps: TrafficDeps
  #timer: NodeJS.Timeout | null = null
  #lastMs = 0
  #owed = 0
  #count = 0

  constructor(chain: LocalChain, deps: TrafficDeps) {
    this.#chain = chain
    this.#deps = deps
  }

  start(): void {
    if (this.#deps.perSecond === 0) return
    this.#lastMs = this.#deps.clock.monotonicMs()
    this.#timer = setInterval(() => this.#turn(), turnMs)
  }

  stop(): void {
    if (this.#timer !== null) clearInterval(this.#timer)
    this.#timer = null
  }

  #turn(): void {
    const { clock, perSecond } = this.#deps
    const nowMs = clock.monotonicMs()
    this.#owed += ((nowMs - this.#lastMs) / 1000) * perSecond
    this.#lastMs = nowMs
    this.#owed = Math.min(this.#owed, owedMax)
    const endMs = nowMs + busyMsMax
    for (; this.#owed >= 1 && clock.monotonicMs() < endMs; this.#owed--) this.#send()
  }

  #send(): void {
    const { wallets } = this.#deps.keys
    const count = this.#count++
    const from = wallets[count % wallets.length]!
    // The step changes with every round, so that all pairs occur.
    const step = 1 + (Math.floor(count / wallets.length) % (wallets.length - 1))
    const to = wallets[(count + step) % wallets.length]!
    const bytes = buildTransaction({
      signers: [from.keypair],
      blockhash: this.#chain.ledger.newest.facts.hash,
      instructions: this.#instructions(count, from, to),
    })
    this.#chain.submit(bytes, { isVerified: true })
  }

  #instructions(count: number, from: Wallet, to: Wallet): Instruction[] {
    const bid = count % 5 === 0 ? [unitPriceInstruction(BigInt(1_000 + (count % 97) * 100))] : []
    const limit = unitLimitInstruction(20_000 + (count % 50_000))
    const kind = count % 10
    if (kind < 6) {
      const [source, destination] = [from.keypair.publicKey, to.keypair.publicKey]
      const lamports = BigInt(1_000 + (count % 9_000))
      return [limit, ...bid, transferInstruction(source, destination, lamports)]
    }
    if (kind === 9) return [limit, ...bid, memoInstruction(`sluice ${count}`)]
    const transfer = tokenTransferInstruction({
      source: from.token,
      mint: this.#deps.keys.mint,
      destination: to.token,
      owner: from.keypair.publicKey,
      amount: BigInt(1 + (count % 1_000)),
      decimals: trafficDecimals,
    })
    return [limit, ...bid, transfer]
  }
}
