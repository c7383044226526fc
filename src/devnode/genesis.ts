// The embedded chain's own keys and the accounts of its first block. Thread: main of the devnode.
// All of it is derived from one seed, which is kept in the chain's folder.
import { createHash } from 'node:crypto'
import { Keypair } from '../solana/keypair.ts'
import { nativeMint, programs, sysvars } from '../solana/programs.ts'
import { mintBytes, tokenAccountBytes } from '../solana/token-account.ts'
import type { VmAccount } from './executed.ts'

const lamportsPerSol = 1_000_000_000n
const faucetLamports = 500_000_000n * lamportsPerSol
const walletLamports = 10_000n * lamportsPerSol
const walletCount = 32
const walletTokens = 1_000_000_000_000n
export const trafficDecimals = 6
const noRentEpoch = 0xffff_ffff_ffff_ffffn
const empty = new Uint8Array(0)

/** A wallet of the background traffic with its token account. */
export interface Wallet {
  readonly keypair: Keypair
  readonly token: Uint8Array
}

export interface ChainKeys {
  readonly faucet: Keypair
  readonly identity: Uint8Array
  readonly mint: Uint8Array
  readonly wallets: readonly Wallet[]
  readonly genesisHash: Uint8Array
}

export function keysOf(seed: Uint8Array): ChainKeys {
  return {
    faucet: Keypair.derive(seed, 'faucet'),
    identity: identityOf(seed).publicKey,
    mint: Keypair.derive(seed, 'mint').publicKey,
    wallets: Array.from({ length: walletCount }, (_, index) => ({
      keypair: Keypair.derive(seed, `wallet ${index}`),
      token: Keypair.derive(seed, `token ${index}`).publicKey,
    })),
    genesisHash: createHash('sha256').update(seed).update('genesis').digest(),
  }
}

/** The node's own key pair: the leader of every slot. */
export function identityOf(seed: Uint8Array): Keypair {
  return Keypair.derive(seed, 'identity')
}

/** Programs and sysvars that a new VM has: the ledger takes them over. */
export const vmKeys: readonly Uint8Array[] = [
  ...Object.values(programs),
  ...Object.values(sysvars),
  nativeMint,
]

/** Accounts of the first block, besides those of a new VM. */
export function genesisAccounts(
  keys: ChainKeys,
  rentExemptMinimum: (dataBytes: number) => bigint,
  given: { readonly mint: Uint8Array | null; readonly faucetLamports: bigint | null },
): VmAccount[] {
  const account = (
    pubkey: Uint8Array,
    holds: { lamports: bigint; data?: Uint8Array; owner?: Uint8Array },
  ): VmAccount => ({
    pubkey,
    owner: programs.system,
    executable: false,
    rentEpoch: noRentEpoch,
    data: empty,
    ...holds,
  })
  const token = (pubkey: Uint8Array, data: Uint8Array) =>
    account(pubkey, { lamports: rentExemptMinimum(data.length), data, owner: programs.token })
  const supply = walletTokens * BigInt(keys.wallets.length)
  return [
    account(keys.faucet.publicKey, { lamports: given.faucetLamports ?? faucetLamports }),
    ...(given.mint === null ? [] : [account(given.mint, { lamports: faucetLamports })]),
    token(nativeMint, mintData({ authority: null, supply: 0n, decimals: 9 })),
    token(
      keys.mint,
      mintData({ authority: keys.faucet.publicKey, supply, decimals: trafficDecimals }),
    ),
    ...keys.wallets.flatMap((wallet) => [
      account(wallet.keypair.publicKey, { lamports: walletLamports }),
      token(wallet.token, tokenData(keys.mint, wallet.keypair.publicKey, walletTokens)),
    ]),
  ]
}

function mintData(mint: {
  authority: Uint8Array | null
  supply: bigint
  decimals: number
}): Uint8Array {
  const data = Buffer.alloc(mintBytes)
  if (mint.authority !== null) {
    data.writeUInt32LE(1, 0)
    data.set(mint.authority, 4)
  }
  data.writeBigUInt64LE(mint.supply, 36)
  data[44] = mint.decimals
  data[45] = 1
  return data
}

function tokenData(mint: Uint8Array, owner: Uint8Array, amount: bigint): Uint8Array {
  const data = Buffer.alloc(tokenAccountBytes)
  data.set(mint, 0)
  data.set(owner, 32)
  data.writeBigUInt64LE(amount, 64)
  data[108] = 1
  return data
}
