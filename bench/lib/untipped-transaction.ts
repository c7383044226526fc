// A signed transaction without a tip, and tip accounts, for the tpu bench. Thread: any.
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

/** A limit, a price and a payment: what a searcher sends, but for the tip. */
export function untippedTransaction(): Uint8Array {
  const signer = new Keypair(bytesOf('signer'))
  return buildTransaction({
    signers: [signer],
    blockhash: bytesOf('blockhash'),
    instructions: [
      unitLimitInstruction(200_000),
      unitPriceInstruction(1_000n),
      transferInstruction(signer.publicKey, bytesOf('to'), 5_000n),
    ],
  })
}
