// The wallet of a landing test: read from a keypair file, or new and filled by an airdrop.
// The key never leaves this process; only signed transactions do.
import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { accept, type Outcome, refuse } from '../../base/errors.ts'
import { encodeBase58, isSameKey } from '../../chain/solana/base58.ts'
import { Keypair } from '../../chain/solana/keypair.ts'
import {
  buildTransaction,
  transferInstruction,
  unitLimitInstruction,
  unitPriceInstruction,
} from '../../devnode/build.ts'
import { type Price, unitLimit } from './plan.ts'
import { callRpc, type RpcAddress } from './rpc-call.ts'

const seedBytes = 32
const keypairBytes = 64
/** Below it the chain refuses a wallet that still has lamports (rent of an empty account). */
export const rentLamports = 890_880n
const airdropMsMax = 30_000
const pollMs = 100

/** Reads a file of `solana-keygen`: 64 numbers, the seed and the public key. */
export function readKeypair(path: string): Outcome<Keypair> {
  const bad = (why: string) => refuse('invalid', 'usage', `--keypair: ${path} ${why}`)
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch {
    return bad('cannot be read')
  }
  const bytes = numbersIn(text)
  if (bytes === null) return bad(`is not a keypair file: a JSON list of ${keypairBytes} numbers`)
  const keypair = new Keypair(bytes.subarray(0, seedBytes))
  if (!isSameKey(keypair.publicKey, bytes.subarray(seedBytes)))
    return bad('is damaged: its two halves do not belong together')
  return accept(keypair)
}

function numbersIn(text: string): Buffer | null {
  try {
    const list: unknown = JSON.parse(text)
    const isList = Array.isArray(list) && list.length === keypairBytes
    const isBytes = (one: unknown) => Number.isInteger(one) && Number(one) >= 0 && Number(one) < 256
    return isList && list.every(isBytes) ? Buffer.from(list as number[]) : null
  } catch {
    return null
  }
}

/** A new wallet with that much from the node's faucet, once the node shows it. */
export async function airdroppedWallet(
  rpc: RpcAddress,
  lamports: bigint,
): Promise<Outcome<Keypair>> {
  const keypair = new Keypair(randomBytes(seedBytes))
  const asked = await callRpc(rpc, 'requestAirdrop', [addressOf(keypair), Number(lamports)])
  if (!asked.ok) return asked
  const endMs = performance.now() + airdropMsMax
  while (performance.now() < endMs) {
    const balance = await balanceOf(rpc, keypair)
    if (!balance.ok) return balance
    if (balance.value >= lamports) return accept(keypair)
    await sleep(pollMs)
  }
  return refuse('unavailable', 'airdrop', `did not pay the airdrop within ${airdropMsMax / 1000} s`)
}

export async function balanceOf(rpc: RpcAddress, keypair: Keypair): Promise<Outcome<bigint>> {
  const config = { commitment: 'processed' }
  const answer = await callRpc(rpc, 'getBalance', [addressOf(keypair), config])
  if (!answer.ok) return answer
  const { value } = answer.value as { readonly value?: unknown }
  if (typeof value === 'number') return accept(BigInt(value))
  return refuse('rejected', 'balance', 'answered getBalance without a balance')
}

export function addressOf({ publicKey }: Keypair): string {
  return encodeBase58(publicKey)
}

export interface TransferParts extends Price {
  readonly wallet: Keypair
  readonly blockhash: Uint8Array
  /** Makes the transaction unique: the amount that goes to the wallet itself. */
  readonly number: number
  /** Null: no tip. */
  readonly tipAccount: Uint8Array | null
}

/** A signed transfer of the wallet to itself, with a tip and a priority fee if asked for. */
export function signTransfer(parts: TransferParts): Uint8Array {
  const { wallet, blockhash, number, tipAccount, tipLamports, unitPrice } = parts
  const { publicKey } = wallet
  const budget = [unitLimitInstruction(unitLimit), unitPriceInstruction(unitPrice)]
  return buildTransaction({
    signers: [wallet],
    blockhash,
    instructions: [
      ...(unitPrice === 0n ? [] : budget),
      transferInstruction(publicKey, publicKey, BigInt(number)),
      ...(tipAccount === null ? [] : [transferInstruction(publicKey, tipAccount, tipLamports)]),
    ],
  })
}
