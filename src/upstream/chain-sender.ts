// Hands transactions to a chain that runs here. Thread: main. Used by the tpu through the topology.
import { accept, type Outcome } from '../base/errors.ts'
import type { SolanaChain } from '../solana/updates.ts'
import type { Fate, TransactionSender } from './ports.ts'

export class ChainSender implements TransactionSender {
  readonly name: string
  readonly #chain: SolanaChain

  constructor(chain: SolanaChain) {
    this.#chain = chain
    this.name = chain.source
  }

  isUp(): boolean {
    return this.#chain.slotsBehind() !== null
  }

  async send(transaction: Uint8Array): Promise<Outcome<null>> {
    const submitted = await this.#chain.submit(transaction, { isVerified: true })
    if (submitted.ok || isProcessed(submitted.refusal.data)) return accept(null)
    return submitted
  }

  async fates(signatures: readonly Uint8Array[]): Promise<readonly (Fate | null)[]> {
    return signatures.map((signature) => {
      const status = this.#chain.signatureStatus(signature)
      return status === null ? null : { slot: status.slot, isSuccess: status.err === null }
    })
  }

  async stop(): Promise<void> {}
}

/** It came in twice; the first one counts. */
function isProcessed(data: unknown): boolean {
  return (data as { err?: unknown } | undefined)?.err === 'AlreadyProcessed'
}
