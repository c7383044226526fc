// Signed transactions with and without a tip, each of a signer of its own, for the tpu benches.
// Thread: any.
import { createHash } from 'node:crypto'
import { encodeBase58 } from '../../src/chain/solana/base58.ts'
import { Keypair } from '../../src/chain/solana/keypair.ts'
import {
  buildTransaction,
  transferInstruction,
  unitLimitInstruction,
  unitPriceInstruction,
} from '../../src/devnode/build.ts'

const bytesOf = (name: string) => createHash('sha256').update(name).digest()

/** Eight, as the embedded chain has. */
export const tipAccounts = Array.from({ length: 8 }, (_, index) =>
  encodeBase58(new Keypair(bytesOf(`tip ${index}`)).publicKey),
)

/** A limit, a price, a payment and, if wanted, a tip: what a searcher sends. */
export function signedTransactions(count: number, options: { tip: boolean }): Uint8Array[] {
  const tips = tipAccounts.map((_, index) => new Keypair(bytesOf(`tip ${index}`)).publicKey)
  return Array.from({ length: count }, (_, index) => {
    const signer = new Keypair(bytesOf(`signer ${index}`))
    const from = signer.publicKey
    const payment = transferInstruction(from, bytesOf(`to ${index}`), 5_000n)
    const tip = transferInstruction(from, tips[index % tips.length]!, 1_000_000n)
    return buildTransaction({
      signers: [signer],
      blockhash: bytesOf('blockhash'),
      instructions: [
        unitLimitInstruction(200_000),
        unitPriceInstruction(1_000n),
        ...(options.tip ? [payment, tip] : [payment]),
      ],
    })
  })
}
