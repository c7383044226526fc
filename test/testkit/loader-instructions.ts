// Instructions of the upgradeable loader, which web3.js does not have.
import {
  type Connection,
  Keypair,
  PublicKey,
  SYSVAR_CLOCK_PUBKEY,
  SYSVAR_RENT_PUBKEY,
  SystemProgram,
  sendAndConfirmTransaction,
  Transaction,
  TransactionInstruction,
} from '@solana/web3.js'

export const upgradeableLoader = new PublicKey('BPFLoaderUpgradeab1e11111111111111111111111')
const bufferHeadBytes = 37
const programBytes = 36
/** What fits into a transaction beside the rest. */
const writeBytes = 900
const tags = { initializeBuffer: 0, write: 1, deploy: 2, upgrade: 3 } as const

type Meta = readonly [key: PublicKey, mode?: 'w' | 's' | 'sw']

/** Deploys the bytes of a program under a new address and returns it. */
export async function deployProgram(
  connection: Connection,
  payer: Keypair,
  elf: Buffer,
): Promise<PublicKey> {
  const buffer = await uploadProgram(connection, payer, elf)
  const program = Keypair.generate()
  const data = Buffer.alloc(12)
  data.writeUInt32LE(tags.deploy)
  data.writeBigUInt64LE(BigInt(elf.length), 4)
  const deploy = instruction(data, [
    [payer.publicKey, 'sw'],
    [dataOf(program.publicKey), 'w'],
    [program.publicKey, 'w'],
    [buffer, 'w'],
    [SYSVAR_RENT_PUBKEY],
    [SYSVAR_CLOCK_PUBKEY],
    [SystemProgram.programId],
    [payer.publicKey, 's'],
  ])
  const create = await createOwned(connection, payer, program.publicKey, programBytes)
  const transaction = new Transaction().add(create, deploy)
  await sendAndConfirmTransaction(connection, transaction, [payer, program])
  return program.publicKey
}

/** Replaces the code of a program. */
export async function upgradeProgram(
  connection: Connection,
  payer: Keypair,
  program: PublicKey,
  elf: Buffer,
): Promise<void> {
  const buffer = await uploadProgram(connection, payer, elf)
  const upgrade = instruction(tagged(tags.upgrade), [
    [dataOf(program), 'w'],
    [program, 'w'],
    [buffer, 'w'],
    [payer.publicKey, 'w'],
    [SYSVAR_RENT_PUBKEY],
    [SYSVAR_CLOCK_PUBKEY],
    [payer.publicKey, 's'],
  ])
  await sendAndConfirmTransaction(connection, new Transaction().add(upgrade), [payer])
}

/** Writes the bytes into a buffer account, all parts at once. */
async function uploadProgram(
  connection: Connection,
  payer: Keypair,
  elf: Buffer,
): Promise<PublicKey> {
  const buffer = Keypair.generate()
  const bytes = bufferHeadBytes + elf.length
  const create = await createOwned(connection, payer, buffer.publicKey, bytes)
  const initialize = instruction(tagged(tags.initializeBuffer), [
    [buffer.publicKey, 'w'],
    [payer.publicKey],
  ])
  const opened = new Transaction().add(create, initialize)
  await sendAndConfirmTransaction(connection, opened, [payer, buffer])
  const writes: Promise<string>[] = []
  for (let offset = 0; offset < elf.length; offset += writeBytes) {
    const part = elf.subarray(offset, offset + writeBytes)
    const head = Buffer.alloc(16)
    head.writeUInt32LE(tags.write)
    head.writeUInt32LE(offset, 4)
    head.writeBigUInt64LE(BigInt(part.length), 8)
    const write = instruction(Buffer.concat([head, part]), [
      [buffer.publicKey, 'w'],
      [payer.publicKey, 's'],
    ])
    writes.push(sendAndConfirmTransaction(connection, new Transaction().add(write), [payer]))
  }
  await Promise.all(writes)
  return buffer.publicKey
}

async function createOwned(
  connection: Connection,
  payer: Keypair,
  key: PublicKey,
  space: number,
): Promise<TransactionInstruction> {
  return SystemProgram.createAccount({
    fromPubkey: payer.publicKey,
    newAccountPubkey: key,
    lamports: await connection.getMinimumBalanceForRentExemption(space),
    space,
    programId: upgradeableLoader,
  })
}

function dataOf(program: PublicKey): PublicKey {
  return PublicKey.findProgramAddressSync([program.toBytes()], upgradeableLoader)[0]
}

function tagged(tag: number): Buffer {
  const data = Buffer.alloc(4)
  data.writeUInt32LE(tag)
  return data
}

function instruction(data: Buffer, metas: readonly Meta[]): TransactionInstruction {
  const keys = metas.map(([pubkey, mode = '']) => ({
    pubkey,
    isSigner: mode.includes('s'),
    isWritable: mode.includes('w'),
  }))
  return new TransactionInstruction({ programId: upgradeableLoader, keys, data })
}
