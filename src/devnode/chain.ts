// The devnode's chain: checks, executes and lands transactions, each in one synchronous call.
// Thread: main of the devnode.
//
//   submit   -> decode -> check -> VM: verify signatures, execute -> producer: land in open slot
//   simulate -> decode -> check -> VM: the same, nothing kept
import type { Commitment } from '../base/commitment.ts'
import { accept, type Outcome, refuse } from '../base/errors.ts'
import { type DecodeProblem, TransactionLayout } from '../solana/transaction.ts'
import type { TransactionError } from '../solana/transaction-error.ts'
import { buildTransaction, transferInstruction, unitLimitInstruction } from './build.ts'
import { type Check, checkTransaction } from './check.ts'
import { notExecuted } from './executed.ts'
import { feeOf } from './fee.ts'
import type { ChainKeys } from './genesis.ts'
import type { LedgerState } from './ledger/state.ts'
import type { ChainCounters } from './meters.ts'
import type { Producer } from './producer.ts'
import { type Simulated, type SimulateOptions, simulatedOf } from './simulated.ts'
import type { Svm } from './svm.ts'

export interface ChainDeps {
  readonly ledger: LedgerState
  readonly svm: Svm
  readonly producer: Producer
  readonly keys: ChainKeys
  readonly counters: ChainCounters
  readonly airdropLamportsMax: bigint
}

/** A transaction that landed in a block: also one that failed and paid its fee. */
export interface Submitted {
  readonly signature: Uint8Array
  readonly slot: number
  readonly err: TransactionError | null
}

/** Airdrops of the same amount to the same key differ in their compute limit. */
const airdropUnitsMin = 1_000
const airdropUnitsSpread = 100_000

export class LocalChain {
  readonly ledger: LedgerState
  readonly #deps: ChainDeps
  readonly #layout = new TransactionLayout()
  #airdrops = 0

  constructor(deps: ChainDeps) {
    this.#deps = deps
    this.ledger = deps.ledger
  }

  /**
   * Executes a transaction and lands it in the open slot. `isVerified`: the caller has verified its
   * signatures. Refusals: `invalid` (bytes or signatures), `rejected` (`data.err` is the
   * TransactionError).
   */
  submit(
    transaction: Uint8Array,
    { isVerified }: { readonly isVerified: boolean },
  ): Outcome<Submitted> {
    const taken = this.#take(transaction)
    if (!taken.ok) return taken
    const { svm, producer, counters } = this.#deps
    const { err, nonceIndex } = taken.value
    const executed =
      err === null
        ? svm.execute(transaction, {
            nonceIndex,
            nonce: producer.nonce,
            mustVerify: !isVerified,
          })
        : notExecuted(err)
    if (executed.err === 'SignatureFailure') return badSignature
    if (!executed.isCharged) {
      counters.transactions.rejected.inc()
      return rejected(executed.err ?? 'SanitizeFailure')
    }
    const landed = producer.land(transaction, executed)
    if (landed.err === null) counters.transactions.landed.inc()
    else counters.transactions.failed.inc()
    return accept({ signature: landed.signature, slot: landed.slot, err: landed.err })
  }

  /**
   * Runs a transaction on the processed state without keeping anything. Refused `invalid` for its
   * bytes or signatures. What the chain itself would refuse (an unknown blockhash, a duplicate) is
   * `err` in the outcome, as in agave.
   */
  simulate(
    transaction: Uint8Array,
    { isBlockhashReplaced, mustVerify }: SimulateOptions,
  ): Outcome<Simulated> {
    const taken = this.#take(transaction, isBlockhashReplaced)
    if (!taken.ok) return taken
    const simulated = this.#deps.svm.simulate(transaction, { mustVerify })
    if (simulated.err === 'SignatureFailure') return badSignature
    const { err } = taken.value
    const executed = err === null ? simulated : notExecuted(err)
    const { ledger } = this
    return accept(simulatedOf(this.#layout, transaction, { executed, ledger, isBlockhashReplaced }))
  }

  /** A signed transfer from the faucet; returns its signature. */
  requestAirdrop(to: Uint8Array, lamports: bigint): Outcome<Uint8Array> {
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
    const submitted = this.submit(bytes, { isVerified: true })
    if (!submitted.ok) return submitted
    const { err, signature } = submitted.value
    return err === null ? accept(signature) : rejected(err)
  }

  /**
   * Fee of a message (without signatures) in lamports; null when its blockhash is not valid.
   * Refused `invalid` for bytes that are no message.
   */
  feeForMessage(message: Uint8Array, blockhashAt: Commitment): Outcome<bigint | null> {
    // The decoder takes whole transactions: empty signatures replace the missing ones.
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

  /** Decodes into the layout and checks what the VM does not. */
  #take(bytes: Uint8Array, isBlockhashReplaced = false): Outcome<Check> {
    const layout = this.#layout
    const problem = layout.decode(bytes)
    if (problem !== 'ok') return malformed(problem)
    const { ledger } = this
    const at = layout.signaturesAt
    if (!isBlockhashReplaced && ledger.stored(bytes.subarray(at, at + 64)) !== null)
      return accept({ err: 'AlreadyProcessed', nonceIndex: -1 })
    const newestHash = ledger.newest.facts.hash
    return accept(checkTransaction(layout, bytes, { ledger, newestHash, isBlockhashReplaced }))
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
