// The embedded chain's own keys and the accounts of its first block. Thread: main of the devnode.
// All of it is derived from one seed, which is kept in the chain's folder.
import { createHash } from 'node:crypto'
import { Keypair } from '../chain/solana/keypair.ts'
import { nativeMint, programs, stakeConfig, sysvars } from '../chain/solana/programs.ts'
import { mintBytes, tokenAccountBytes } from '../chain/solana/token-account.ts'
import type { EpochSchedule } from './ledger/ledger.ts'
import { rentExemptMinimum } from './rent.ts'
import { bootstrapEpoch, newVoteState } from './stakes.ts'
import type { VmAccount } from './svm.ts'
import {
  emptySlotHistory,
  epochScheduleSysvar,
  slotSysvars,
  stakeHistorySysvar,
  sysvarAccount,
} from './sysvars.ts'

const lamportsPerSol = 1_000_000_000n
const faucetLamports = 500_000_000n * lamportsPerSol
/** As a test validator's. */
const identityLamports = 500n * lamportsPerSol
const stakeLamports = 1_000_000n * lamportsPerSol
const stakeBytes = 200
const walletLamports = 10_000n * lamportsPerSol
const walletCount = 32
const walletTokens = 1_000_000_000_000n
export const trafficDecimals = 6
const noRentEpoch = 0xffff_ffff_ffff_ffffn
const noData = new Uint8Array(0)

/** No keys | warm-up rate 0.25 f64 | slash penalty 12: no program reads it any more. */
const stakeConfigData = Buffer.from('00000000000000d03f0c', 'hex')

/** A wallet of the background traffic with its token account. */
export interface Wallet {
  readonly keypair: Keypair
  readonly token: Uint8Array
}

export interface ChainKeys {
  readonly faucet: Keypair
  readonly identity: Uint8Array
  /** The validator's vote account, and the stake that is delegated to it. */
  readonly vote: Uint8Array
  readonly stake: Uint8Array
  readonly mint: Uint8Array
  readonly wallets: readonly Wallet[]
  readonly genesisHash: Uint8Array
}

/** What the key pairs of the chain and its validator are derived by. */
export const keyPairNames = {
  faucet: 'faucet',
  identity: 'identity',
  vote: 'vote',
  stake: 'stake',
} as const

export function keysOf(seed: Uint8Array): ChainKeys {
  return {
    faucet: Keypair.derive(seed, keyPairNames.faucet),
    identity: identityOf(seed).publicKey,
    vote: Keypair.derive(seed, keyPairNames.vote).publicKey,
    stake: Keypair.derive(seed, keyPairNames.stake).publicKey,
    mint: Keypair.derive(seed, 'mint').publicKey,
    wallets: Array.from({ length: walletCount }, (_, index) => ({
      keypair: Keypair.derive(seed, `wallet ${index}`),
      token: Keypair.derive(seed, `token ${index}`).publicKey,
    })),
    genesisHash: createHash('sha256').update(seed).update('genesis').digest(),
  }
}

/** The key pair of a node: the leader of its slots, of all when there is one node. */
export function identityOf(seed: Uint8Array, node = 0): Keypair {
  const { identity } = keyPairNames
  return Keypair.derive(seed, node === 0 ? identity : `${identity} ${node + 1}`)
}

/** Programs that a new VM has: the ledger takes them over. */
export const vmPrograms: readonly Uint8Array[] = Object.values(programs)

/** Sysvars that never change: the ledger takes them over as well. */
export const vmSysvars: readonly Uint8Array[] = [
  sysvars.rent,
  sysvars.epochRewards,
  sysvars.lastRestartSlot,
]

/** Accounts of the first block, besides those of a new VM and of the cluster. */
export function genesisAccounts(
  keys: ChainKeys,
  given: { readonly mint: Uint8Array | null; readonly faucetLamports: bigint | null },
): VmAccount[] {
  return [
    account(keys.faucet.publicKey, { lamports: given.faucetLamports ?? faucetLamports }),
    ...(given.mint === null ? [] : [account(given.mint, { lamports: faucetLamports })]),
  ]
}

/** What the background traffic needs: a mint, and wallets with lamports and tokens. */
export function trafficAccounts(keys: ChainKeys): VmAccount[] {
  const supply = walletTokens * BigInt(keys.wallets.length)
  return [
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

/** What every cluster has from its first block on: sysvars, and a validator with stake. */
export function clusterAccounts(
  keys: ChainKeys,
  at: { readonly slot: number; readonly unixTime: number; readonly schedule: EpochSchedule },
): VmAccount[] {
  const { slot, unixTime, schedule } = at
  const { identity: node, vote } = keys
  const nativeMintData = mintData({ authority: null, supply: 0n, decimals: 9 })
  return [
    ...slotSysvars({ slot, schedule, unixTime, clock: null, blocks: [] }),
    epochScheduleSysvar(schedule),
    stakeHistorySysvar([]),
    sysvarAccount(sysvars.slotHistory, emptySlotHistory()),
    account(stakeConfig, {
      lamports: rentExemptMinimum(stakeConfigData.length),
      data: stakeConfigData,
      owner: programs.config,
      rentEpoch: 0n,
    }),
    account(nativeMint, {
      lamports: lamportsPerSol,
      data: nativeMintData,
      owner: programs.token,
      rentEpoch: 1n,
    }),
    account(node, { lamports: identityLamports }),
    account(vote, {
      lamports: stakeLamports,
      data: newVoteState(node, vote),
      owner: programs.vote,
    }),
    account(keys.stake, { lamports: stakeLamports, data: stakeData(keys), owner: programs.stake }),
  ]
}

function account(
  pubkey: Uint8Array,
  holds: { lamports: bigint; data?: Uint8Array; owner?: Uint8Array; rentEpoch?: bigint },
): VmAccount {
  const empty = { owner: programs.system, data: noData, executable: false, rentEpoch: noRentEpoch }
  return { pubkey, ...empty, ...holds }
}

function token(pubkey: Uint8Array, data: Uint8Array): VmAccount {
  return account(pubkey, { lamports: rentExemptMinimum(data.length), data, owner: programs.token })
}

/** Active from the first slot on; its own key may stake and withdraw. */
function stakeData({ stake, vote }: ChainKeys): Uint8Array {
  const data = Buffer.alloc(stakeBytes)
  const reserve = rentExemptMinimum(stakeBytes)
  data.writeUInt32LE(2, 0)
  data.writeBigUInt64LE(reserve, 4)
  data.set(stake, 12)
  data.set(stake, 44)
  data.set(vote, 124)
  data.writeBigUInt64LE(stakeLamports - reserve, 156)
  data.writeBigUInt64LE(bootstrapEpoch, 164)
  data.writeBigUInt64LE(0xffff_ffff_ffff_ffffn, 172)
  data.writeDoubleLE(0.25, 180)
  return data
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
