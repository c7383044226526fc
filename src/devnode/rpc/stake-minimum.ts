// Reads the minimum delegation from the stake program by a simulation without signatures, for
// getStakeMinimumDelegation. Thread: main of the devnode.
import { accept, type Outcome } from '../../base/errors.ts'
import { decodeKey } from '../../chain/solana/base58.ts'
import type { LocalChain } from '../chain.ts'

/** GetMinimumDelegation of the stake program. */
const instructionTag = 13

export function probeMinimumDelegation(
  chain: LocalChain,
  stakeProgram: Uint8Array,
): Outcome<bigint> {
  const payer = decodeKey(chain.ledger.faucet)!
  const simulated = chain.simulate(question(payer, stakeProgram), {
    isBlockhashReplaced: true,
    mustVerify: false,
  })
  if (!simulated.ok) return simulated
  const { returnData } = simulated.value
  // A program without this instruction sets no minimum.
  if (returnData === null || returnData.data.length < 8) return accept(1n)
  return accept(Buffer.from(returnData.data).readBigUInt64LE(0))
}

/** One empty signature | header 1 0 1 | payer, program | no blockhash | the one instruction. */
function question(payer: Uint8Array, program: Uint8Array): Uint8Array {
  return Buffer.concat([
    Uint8Array.of(1),
    new Uint8Array(64),
    Uint8Array.of(1, 0, 1, 2),
    payer,
    program,
    new Uint8Array(32),
    Uint8Array.of(1, 1, 0, 4, instructionTag, 0, 0, 0),
  ])
}
