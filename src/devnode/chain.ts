// The embedded Solana chain as everybody else sees it. Thread: main. Started by start.ts.
//
//   submit -> decode -> check -> verify workers -> executor (child process) -> producer: land
//   simulate, airdrop: the same road, and back
import type { Commitment } from '../base/commitment.ts'
import { accept, type Outcome, refuse } from '../base/errors.ts'
import { keyOf } from '../solana/keys.ts'
import { type DecodeProblem, TransactionLayout } from '../solana/transaction.ts'
import type { TransactionError } from '../solana/transaction-error.ts'
import type { LatestBlockhash, SignatureStatus, Submitted } from '../solana/updates.ts'
import type { VerifyPool } from '../threads/verify-pool.ts'
import { buildTransaction, transferInstruction, unitLimitInstruction } from './build.ts'
import { type Check, checkTransaction } from './check.ts'
import type { EmbeddedChain, Simulated, SimulateOptions } from './embedded-chain.ts'
import type { Executor } from './executor.ts'
import { feeOf } from './fee.ts'
import type { ChainKeys } from './genesis.ts'
import type { LedgerState } from './ledger/state.ts'
import type { ChainMeters } from './meters.ts'
import { failedBefore, simulatedOf } from './simulated.ts'

export interface ChainDeps {
  readonly ledger: LedgerState
  readonly executor: Executor
  readonly verifier: Pick<VerifyPool, 'verify'>
  readonly keys: ChainKeys
  readonly meters: ChainMeters
  readonly airdropLamportsMax: bigint
}

/** An airdrop is told from the one before it by its compute limit. */
const airdropUnitsMin = 1_000
const airdropUnitsSpread = 100_000

export class LocalChain implements EmbeddedChain {
  readonly source = 'embedded'
  readonly ledger: LedgerState
  readonly #deps: ChainDeps
  readonly #layout = new TransactionLayout()
  /** Signatures that are on their way and not in the ledger yet. */
  readonly #inFlight = new Set<string>()
  #airdrops = 0

  constructor(deps: ChainDeps) {
    this.#deps = deps
    this.ledger = deps.ledger
  }

  async submit(
    transaction: Uint8Array,
    { isVerified }: { readonly isVerified: boolean },
  ): Promise<Outcome<Submitted>> {
    const { meters } = this.#deps
    const taken = this.#take(transaction)
    if (!taken.ok) return taken
    const { signature, check } = taken.value
    if (check.err !== null) {
      meters.transactions.rejected.inc()
      return rejected(check.err)
    }
    const name = keyOf(signature)
    this.#inFlight.add(name)
    try {
      const outcome = await this.#run(transaction, check.nonceIndex, isVerified)
      if (!outcome.ok) return outcome
      const { err, isCharged } = outcome.value
      if (!isCharged) {
        meters.transactions.rejected.inc()
        return rejected(err ?? 'SanitizeFailure')
      }
      return accept({ signature, slot: this.ledger.stored(signature)?.slot ?? null, err })
    } finally {
      this.#inFlight.delete(name)
    }
  }

  async simulate(transaction: Uint8Array, options: SimulateOptions): Promise<Outcome<Simulated>> {
    const { isBlockhashReplaced, isVerified } = options
    const taken = this.#take(transaction, isBlockhashReplaced)
    if (!taken.ok) return taken
    if (isVerified) {
      const verdict = await this.#verify(transaction)
      if (!verdict.ok) return verdict
    }
    const { err } = taken.value.check
    const outcome =
      err === null ? await this.#deps.executor.simulate(transaction) : accept(failedBefore(err))
    if (!outcome.ok) return outcome
    this.#layout.decode(transaction)
    const executed = outcome.value
    const { ledger } = this
    return accept(simulatedOf(this.#layout, transaction, { executed, ledger, isBlockhashReplaced }))
  }

  async requestAirdrop(to: Uint8Array, lamports: bigint): Promise<Outcome<Uint8Array>> {
    const { airdropLamportsMax, keys } = this.#deps
    if (lamports > airdropLamportsMax)
      return refuse('rejected', 'airdrop-limit', `at most ${airdropLamportsMax} lamports at once`)
    this.#airdrops = (this.#airdrops + 1) % airdropUnitsSpread
    const bytes = buildTransaction({
      signers: [keys.faucet],
      blockhash: this.ledger.newest.facts.hash,
      instructions: [
        unitLimitInstruction(airdropUnitsMin + this.#airdrops),
        transferInstruction(keys.faucet.publicKey, to, lamports),
      ],
    })
    const submitted = await this.submit(bytes, { isVerified: true })
    if (!submitted.ok) return submitted
    const { err, signature } = submitted.value
    return err === null ? accept(signature) : rejected(err)
  }

  feeForMessage(message: Uint8Array, blockhashAt: Commitment): Outcome<bigint | null> {
    // The decoder takes whole transactions: empty signatures stand in for the missing ones.
    const signers = (message[0] ?? 0) >= 0x80 ? (message[1] ?? 0) : (message[0] ?? 0)
    const bytes = Buffer.concat([
      Uint8Array.of(signers & 0x7f),
      new Uint8Array((signers & 0x7f) * 64),
      message,
    ])
    const problem = this.#layout.decode(bytes)
    if (problem !== 'ok') return malformed(problem)
    const at = this.#layout.blockhashAt
    if (!this.ledger.isBlockhashValid(bytes.subarray(at, at + 32), blockhashAt)) return accept(null)
    return accept(feeOf(this.#layout, bytes).lamports)
  }

  slot(commitment: Commitment): number {
    return this.ledger.slot(commitment)
  }

  blockHeight(commitment: Commitment): number {
    return this.ledger.blockHeight(commitment)
  }

  latestBlockhash(commitment: Commitment): LatestBlockhash {
    return this.ledger.latestBlockhash(commitment)
  }

  isBlockhashValid(blockhash: Uint8Array, commitment: Commitment): boolean {
    return this.ledger.isBlockhashValid(blockhash, commitment)
  }

  signatureStatus(signature: Uint8Array): SignatureStatus | null {
    return this.ledger.signatureStatus(signature)
  }

  slotsBehind(): number | null {
    return this.#deps.executor.isReady ? 0 : null
  }

  /** Decodes and checks. The bytes come back as a copy of the signature and a verdict. */
  #take(
    bytes: Uint8Array,
    isBlockhashReplaced = false,
  ): Outcome<{ signature: Uint8Array; check: Check }> {
    const layout = this.#layout
    const problem = layout.decode(bytes)
    if (problem !== 'ok') return malformed(problem)
    const { ledger } = this
    const newestHash = ledger.newest.facts.hash
    const at = layout.signaturesAt
    const signature = new Uint8Array(bytes.subarray(at, at + 64))
    const isKnown = ledger.stored(signature) !== null || this.#inFlight.has(keyOf(signature))
    if (isKnown && !isBlockhashReplaced)
      return accept({ signature, check: { err: 'AlreadyProcessed', nonceIndex: -1 } })
    const check = checkTransaction(layout, bytes, { ledger, newestHash, isBlockhashReplaced })
    return accept({ signature, check })
  }

  async #run(bytes: Uint8Array, nonceIndex: number, isVerified: boolean) {
    if (!isVerified) {
      const verdict = await this.#verify(bytes)
      if (!verdict.ok) return verdict
    }
    return this.#deps.executor.execute({ bytes, nonceIndex })
  }

  async #verify(bytes: Uint8Array): Promise<Outcome<true>> {
    const verdict = await this.#deps.verifier.verify(bytes)
    if (!verdict.ok) return verdict
    return verdict.value ? accept(true) : badSignature
  }
}

const badSignature = refuse(
  'invalid',
  'signature-verification',
  'Transaction signature verification failure',
)

function malformed(problem: DecodeProblem): Outcome<never> {
  return refuse('invalid', problem, `the transaction cannot be read: ${problem}`, {
    data: { problem },
  })
}

function rejected(err: TransactionError): Outcome<never> {
  return refuse('rejected', 'transaction-error', 'the chain does not take the transaction', {
    data: { err },
  })
}
