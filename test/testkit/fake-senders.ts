// Upstreams of the TPU Sender scripted by a test, and a clock that a test advances.
import type { Clock } from '../../src/base/clock.ts'
import { accept, type Outcome, refuse } from '../../src/base/errors.ts'
import { keyOf } from '../../src/chain/solana/base58.ts'
import type { Fate, TransactionSender } from '../../src/upstream/ports.ts'

export class FakeClock implements Clock {
  ms = 1_000

  nowMs(): number {
    return 1_700_000_000_000 + this.ms
  }

  monotonicMs(): number {
    return this.ms
  }
}

export class FakeSender implements TransactionSender {
  readonly name = 'fake'
  isHealthy = true
  word: Outcome<null> | Promise<Outcome<null>> = accept(null)
  readonly sent: Uint8Array[] = []
  readonly known = new Map<string, Fate>()
  isStopped = false

  isUp(): boolean {
    return this.isHealthy
  }

  async send(transaction: Uint8Array): Promise<Outcome<null>> {
    this.sent.push(transaction)
    return this.word
  }

  async fates(signatures: readonly Uint8Array[]): Promise<readonly (Fate | null)[]> {
    return signatures.map((signature) => this.known.get(keyOf(signature)) ?? null)
  }

  async stop(): Promise<void> {
    this.isStopped = true
  }
}

export const unreachable = refuse('unavailable', 'upstream', 'not reached')
export const notTaken = refuse('rejected', 'upstream', 'no', { data: { err: 'AccountNotFound' } })
