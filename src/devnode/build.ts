// Builds and signs legacy transactions.
// For the embedded chain's faucet and background traffic; customers sign their own.
import { assert } from '../base/errors.ts'
import { keyOf } from '../chain/solana/base58.ts'
import type { Keypair } from '../chain/solana/keypair.ts'
import { programs } from '../chain/solana/programs.ts'
import { counted } from '../chain/solana/wire.ts'

export interface AccountMeta {
  readonly pubkey: Uint8Array
  readonly isSigner: boolean
  readonly isWritable: boolean
}

export interface Instruction {
  readonly program: Uint8Array
  readonly accounts: readonly AccountMeta[]
  readonly data: Uint8Array
}

/** The first signer is the fee payer. Every signing account must be among the signers. */
export function buildTransaction(parts: {
  readonly signers: readonly Keypair[]
  readonly blockhash: Uint8Array
  readonly instructions: readonly Instruction[]
}): Uint8Array {
  const { signers, blockhash, instructions } = parts
  const message = compile(
    signers.map((signer) => signer.publicKey),
    blockhash,
    instructions,
  )
  const signatures = signers.map((signer) => signer.sign(message))
  return Buffer.concat([Uint8Array.of(signatures.length), ...signatures, message])
}

function compile(
  signers: readonly Uint8Array[],
  blockhash: Uint8Array,
  instructions: readonly Instruction[],
): Buffer {
  const isWritable = new Map<string, boolean>(signers.map((key) => [keyOf(key), true]))
  for (const { program, accounts } of instructions) {
    for (const account of accounts) {
      const key = keyOf(account.pubkey)
      isWritable.set(key, (isWritable.get(key) ?? false) || account.isWritable)
    }
    if (!isWritable.has(keyOf(program))) isWritable.set(keyOf(program), false)
  }
  const signing = new Set(signers.map(keyOf))
  const others = [...isWritable].filter(([key]) => !signing.has(key))
  const writable = others.filter(([, isWritten]) => isWritten).map(([key]) => key)
  const readonly = others.filter(([, isWritten]) => !isWritten).map(([key]) => key)
  const keys = [...signing, ...writable, ...readonly]
  assert(keys.length < 128, 'a transaction of ours has few keys')
  const indexOf = new Map(keys.map((key, index) => [key, index]))
  const body = instructions.flatMap(({ program, accounts, data }) => [
    Uint8Array.of(indexOf.get(keyOf(program))!, accounts.length),
    Uint8Array.from(accounts, ({ pubkey }) => indexOf.get(keyOf(pubkey))!),
    ...counted(data),
  ])
  return Buffer.concat([
    Uint8Array.of(signing.size, 0, readonly.length, keys.length),
    ...keys.map((key) => Buffer.from(key, 'latin1')),
    blockhash,
    Uint8Array.of(instructions.length),
    ...body,
  ])
}

const written = (pubkey: Uint8Array, isSigner = false): AccountMeta => ({
  pubkey,
  isSigner,
  isWritable: true,
})

export function transferInstruction(
  from: Uint8Array,
  to: Uint8Array,
  lamports: bigint,
): Instruction {
  const data = Buffer.alloc(12)
  data.writeUInt32LE(2)
  data.writeBigUInt64LE(lamports, 4)
  return { program: programs.system, accounts: [written(from, true), written(to)], data }
}

/** SPL Token TransferChecked. */
export function tokenTransferInstruction(transfer: {
  readonly source: Uint8Array
  readonly mint: Uint8Array
  readonly destination: Uint8Array
  readonly owner: Uint8Array
  readonly amount: bigint
  readonly decimals: number
}): Instruction {
  const data = Buffer.alloc(10)
  data[0] = 12
  data.writeBigUInt64LE(transfer.amount, 1)
  data[9] = transfer.decimals
  const mint = { pubkey: transfer.mint, isSigner: false, isWritable: false }
  const owner = { pubkey: transfer.owner, isSigner: true, isWritable: false }
  const accounts = [written(transfer.source), mint, written(transfer.destination), owner]
  return { program: programs.token, accounts, data }
}

export function memoInstruction(text: string): Instruction {
  return { program: programs.memo, accounts: [], data: Buffer.from(text) }
}

export function unitLimitInstruction(units: number): Instruction {
  const data = Buffer.alloc(5)
  data[0] = 2
  data.writeUInt32LE(units, 1)
  return { program: programs.computeBudget, accounts: [], data }
}

export function unitPriceInstruction(microLamports: bigint): Instruction {
  const data = Buffer.alloc(9)
  data[0] = 3
  data.writeBigUInt64LE(microLamports, 1)
  return { program: programs.computeBudget, accounts: [], data }
}
