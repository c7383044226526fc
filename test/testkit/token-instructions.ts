// SPL Token instructions for web3.js, which knows the system program only.
import { type Keypair, PublicKey, SystemProgram, TransactionInstruction } from '@solana/web3.js'

export const tokenProgram = new PublicKey('TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA')
export const mintBytes = 82
export const tokenAccountBytes = 165

/** Makes a mint of 6 decimals whose authority is `payer`. */
export function createMint(payer: Keypair, mint: Keypair, lamports: number) {
  return [
    create(payer, mint, { space: mintBytes, lamports }),
    // InitializeMint2: decimals, authority, no freeze authority.
    token([mint.publicKey], [20, 6, ...payer.publicKey.toBytes(), 0]),
  ]
}

export function createTokenAccount(
  payer: Keypair,
  account: Keypair,
  of: { mint: PublicKey; owner: PublicKey; lamports: number },
) {
  return [
    create(payer, account, { space: tokenAccountBytes, lamports: of.lamports }),
    token([account.publicKey, of.mint], [18, ...of.owner.toBytes()]),
  ]
}

export function mintTo(mint: PublicKey, account: PublicKey, by: PublicKey, amount: bigint) {
  return token([mint, account], [7, ...u64(amount)], by)
}

export function transferChecked(
  move: { source: PublicKey; mint: PublicKey; destination: PublicKey; owner: PublicKey },
  amount: bigint,
) {
  return token([move.source, move.mint, move.destination], [12, ...u64(amount), 6], move.owner)
}

export function transferPlain(
  move: { source: PublicKey; destination: PublicKey; owner: PublicKey },
  amount: bigint,
) {
  return token([move.source, move.destination], [3, ...u64(amount)], move.owner)
}

export function approve(source: PublicKey, delegate: PublicKey, by: PublicKey, amount: bigint) {
  return token([source, delegate], [4, ...u64(amount)], by)
}

function create(payer: Keypair, account: Keypair, size: { space: number; lamports: number }) {
  return SystemProgram.createAccount({
    fromPubkey: payer.publicKey,
    newAccountPubkey: account.publicKey,
    programId: tokenProgram,
    ...size,
  })
}

function token(accounts: PublicKey[], data: number[], signer?: PublicKey) {
  const keys = accounts.map((pubkey) => ({ pubkey, isSigner: false, isWritable: true }))
  if (signer !== undefined) keys.push({ pubkey: signer, isSigner: true, isWritable: false })
  return new TransactionInstruction({ programId: tokenProgram, keys, data: Buffer.from(data) })
}

function u64(value: bigint): Buffer {
  const bytes = Buffer.alloc(8)
  bytes.writeBigUInt64LE(value)
  return bytes
}
