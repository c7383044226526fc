// Entry of the signature verification pool's workers. Thread: verify worker.
// Job: a list of transactions; result: one byte each, 1 when all its signatures are valid.
import { Verifier } from '../src/chain/solana/verify.ts'

const verifier = new Verifier()

export default function verifyAll(transactions: readonly Uint8Array[]): Uint8Array {
  return Uint8Array.from(transactions, (bytes) => (verifier.verify(bytes) ? 1 : 0))
}
