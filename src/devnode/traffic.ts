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
/** Transactions that a stall delayed; more are skipped. */
const owedMax = 500

export class Traffic {
  readonly #chain: LocalChain
  readonly #keys: ChainKeys
  readonly #perSecond: number
  readonly #clock: Clock
  #timer: NodeJS.Timeout | null = null
  #lastMs = 0
  #owed = 0
  #count = 0

  constructor(
    chain: LocalChain,
    deps: { readonly keys: ChainKeys; readonly perSecond: number; readonly clock: Clock },
  ) {
    this.#chain = chain
    this.#keys = deps.keys
    this.#perSecond = deps.perSecond
    this.#clock = deps.clock
  }

  start(): void {
    if (this.#perSecond === 0) return
    this.#lastMs = this.#clock.monotonicMs()
    this.#timer = setInterval(() => this.#turn(), turnMs)
  }

  stop(): void {
    if (this.#timer !== null) clearInterval(this.#timer)
    this.#timer = null
  }

  #turn(): void {
    const nowMs = this.#clock.monotonicMs()
    this.#owed += ((nowMs - this.#lastMs) / 1000) * this.#perSecond
    this.#lastMs = nowMs
    this.#owed = Math.min(this.#owed, owedMax)
    for (; this.#owed >= 1; this.#owed--) this.#send()
  }

  #send(): void {
    const { wallets } = this.#keys
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
    if (kind < 6)
      return [
        limit,
        ...bid,
        transferInstruction(
          from.keypair.publicKey,
          to.keypair.publicKey,
          BigInt(1_000 + (count % 9_000)),
        ),
      ]
    if (kind === 9) return [limit, ...bid, memoInstruction(`sluice ${count}`)]
    const transfer = tokenTransferInstruction({
      source: from.token,
      mint: this.#keys.mint,
      destination: to.token,
      owner: from.keypair.publicKey,
      amount: BigInt(1 + (count % 1_000)),
      decimals: trafficDecimals,
    })
    return [limit, ...bid, transfer]
  }
}
