// Addresses of the programs and sysvars that the service knows by name.
import { assert } from '../../base/errors.ts'
import { decodeKey } from './base58.ts'

export const programs = {
  system: key('11111111111111111111111111111111'),
  token: key('TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA'),
  token2022: key('TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb'),
  associatedToken: key('ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL'),
  memo: key('MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr'),
  memoV4: key('Memo4c2pN8afCj432Lb7RMVKi9PbQnnW7ewFFaV3oAH'),
  memoV1: key('Memo1UhkJRfHyvLMcVucJwxXeuD728EqVDDwQDxFMNo'),
  computeBudget: key('ComputeBudget111111111111111111111111111111'),
  addressLookupTable: key('AddressLookupTab1e1111111111111111111111111'),
  stake: key('Stake11111111111111111111111111111111111111'),
  vote: key('Vote111111111111111111111111111111111111111'),
  config: key('Config1111111111111111111111111111111111111'),
  nativeLoader: key('NativeLoader1111111111111111111111111111111'),
  loaderV1: key('BPFLoader1111111111111111111111111111111111'),
  loaderV2: key('BPFLoader2111111111111111111111111111111111'),
  upgradeableLoader: key('BPFLoaderUpgradeab1e11111111111111111111111'),
  ed25519: key('Ed25519SigVerify111111111111111111111111111'),
  secp256k1: key('KeccakSecp256k11111111111111111111111111111'),
  secp256r1: key('Secp256r1SigVerify1111111111111111111111111'),
  zkElGamalProof: key('ZkE1Gama1Proof11111111111111111111111111111'),
} as const

export const sysvars = {
  clock: key('SysvarC1ock11111111111111111111111111111111'),
  rent: key('SysvarRent111111111111111111111111111111111'),
  epochSchedule: key('SysvarEpochSchedu1e111111111111111111111111'),
  epochRewards: key('SysvarEpochRewards1111111111111111111111111'),
  slotHashes: key('SysvarS1otHashes111111111111111111111111111'),
  slotHistory: key('SysvarS1otHistory11111111111111111111111111'),
  stakeHistory: key('SysvarStakeHistory1111111111111111111111111'),
  recentBlockhashes: key('SysvarRecentB1ockHashes11111111111111111111'),
  fees: key('SysvarFees111111111111111111111111111111111'),
  rewards: key('SysvarRewards111111111111111111111111111111'),
  lastRestartSlot: key('SysvarLastRestartS1ot1111111111111111111111'),
  instructions: key('Sysvar1nstructions1111111111111111111111111'),
} as const

/** Owner of every sysvar account. */
export const sysvarOwner = key('Sysvar1111111111111111111111111111111111111')
/** The account of the config program that describes how stake warms up. */
export const stakeConfig = key('StakeConfig11111111111111111111111111111111')
/** The first key of accounts that describe a validator. */
export const validatorInfo = key('Va1idator1nfo111111111111111111111111111111')
/** Loader of version 4: its builtin may be absent, so it is not among the programs. */
export const loaderV4 = key('LoaderV411111111111111111111111111111111111')
/** Mint of wrapped SOL. */
export const nativeMint = key('So11111111111111111111111111111111111111112')

function key(text: string): Uint8Array {
  const bytes = decodeKey(text)
  assert(bytes !== null, 'a known address is 32 bytes')
  return bytes
}
