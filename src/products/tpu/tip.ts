// Finds the tip in a decoded transaction.
// Pure and without allocation: a TipCheck is made once and overwritten by each look.
//
// A candidate is a top-level Transfer or TransferWithSeed of the System Program to a tip account,
// or to an account from a lookup table. Each candidate passes the checks below until one fails; the
// candidate that passed most decides the reason, and the largest of those decides the amount.
//
//   lookup table -> account writable -> source signs -> enough lamports -> good
import { randomBytes } from 'node:crypto'
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { assert, Fault } from '../../base/errors.ts'
import { decodeKey, encodeBase58 } from '../../chain/solana/base58.ts'
import { Keypair } from '../../chain/solana/keypair.ts'
import type { TransactionLayout } from '../../chain/solana/transaction.ts'
import { tipAccountsMax } from './config.ts'

/** Limits: Minimum tip. */
export const minimumTipLamports = 1_000_000

/** Failed checks by rank: the index is the number of checks that a candidate passed. */
export const tipReasons = [
  'TIP_MISSING',
  'TIP_VIA_LOOKUP_TABLE',
  'TIP_ACCOUNT_NOT_WRITABLE',
  'TIP_SOURCE_NOT_SIGNER',
  'TIP_TOO_LOW',
] as const
export type TipReason = (typeof tipReasons)[number]

const viaLookupTable = 1
const notWritable = 2
const sourceNotSigner = 3
const tooLow = 4
const good = 5

/**
 * Transfers in the System Program's encoding; more bytes may follow. In both, the lamports are a
 * u64 after the u32 tag, and the account before the destination signs: the source of a Transfer,
 * the base of the address with a seed.
 *
 *   Transfer          tag 2, lamports                                   accounts: source, to
 *   TransferWithSeed  tag 11, lamports, u64 length and seed, owner      accounts: source, base, to
 */
const transfer = { tag: 2, dataBytes: 12, to: 1 }
const transferWithSeed = { tag: 11, dataBytes: 52, to: 2 }

export class TipCheck {
  /**
   * Lamports of the deciding candidate; 0 without one. A number and not a bigint for speed: exact
   * up to nine million SOL, and beyond that only compared with the minimum.
   */
  lamports = 0
  /** Index into the tip accounts; -1 unless the tip is good. */
  account = -1
  #rank = 0

  /** True when there is a good tip. */
  look(layout: TransactionLayout, bytes: Uint8Array, accounts: TipAccounts): boolean {
    this.lamports = 0
    this.account = -1
    this.#rank = 0
    for (let index = 0; index < layout.instructionCount; index++)
      if (isSystemProgram(layout, bytes, index)) this.#consider(layout, bytes, index, accounts)
    return this.#rank === good
  }

  /** Why the last look found no good tip. */
  get reason(): TipReason {
    return tipReasons[this.#rank] ?? 'TIP_MISSING'
  }

  #consider(
    layout: TransactionLayout,
    bytes: Uint8Array,
    index: number,
    accounts: TipAccounts,
  ): void {
    const toAt = destinationAt(layout, bytes, index)
    if (toAt < 0) return
    const to = bytes[toAt]!
    const lamports = u64(bytes, layout.dataAt[index]! + 4)
    let rank = viaLookupTable
    let account = -1
    if (to < layout.keyCount) {
      account = accounts.find(bytes, layout.keysAt + to * 32)
      if (account < 0) return
      if (!layout.isWritable(to)) rank = notWritable
      else if (!layout.isSigner(bytes[toAt - 1]!)) rank = sourceNotSigner
      else rank = lamports < minimumTipLamports ? tooLow : good
    }
    if (rank < this.#rank || (rank === this.#rank && lamports <= this.lamports)) return
    this.#rank = rank
    this.lamports = lamports
    this.account = rank === good ? account : -1
  }
}

/** The System Program's address is 32 zero bytes. */
function isSystemProgram(layout: TransactionLayout, bytes: Uint8Array, index: number): boolean {
  const programAt = layout.keysAt + layout.programIndex[index]! * 32
  for (let at = programAt; at < programAt + 32; at++) if (bytes[at] !== 0) return false
  return true
}

/** Offset of the destination's account index; -1 when the instruction is no transfer. */
function destinationAt(layout: TransactionLayout, bytes: Uint8Array, index: number): number {
  const dataAt = layout.dataAt[index]!
  const kind = bytes[dataAt] === transferWithSeed.tag ? transferWithSeed : transfer
  if (layout.dataLength[index]! < kind.dataBytes) return -1
  if (layout.accountsCount[index]! <= kind.to) return -1
  if (bytes[dataAt] !== kind.tag || bytes[dataAt + 1] !== 0) return -1
  if (bytes[dataAt + 2] !== 0 || bytes[dataAt + 3] !== 0) return -1
  return layout.accountsAt[index]! + kind.to
}

function u64(bytes: Uint8Array, at: number): number {
  const low = bytes[at]! + bytes[at + 1]! * 0x100 + bytes[at + 2]! * 0x1_0000
  const high = bytes[at + 4]! + bytes[at + 5]! * 0x100 + bytes[at + 6]! * 0x1_0000
  return low + bytes[at + 3]! * 0x100_0000 + (high + bytes[at + 7]! * 0x100_0000) * 0x1_0000_0000
}

/** The embedded chain uses eight generated keys. */
const generatedAccounts = 8

export class TipAccounts {
  texts: readonly string[] = []
  /** The texts as a JSON array. */
  json = '[]'
  /** All keys, concatenated, and the first four bytes of each, which nearly always decide. */
  #keys = new Uint8Array(0)
  #starts = new Int32Array(0)

  constructor(texts: readonly string[]) {
    this.replace(texts)
  }

  replace(texts: readonly string[]): void {
    assert(texts.length >= 1 && texts.length <= tipAccountsMax, 'there are 1 to 32 tip accounts')
    const keys = new Uint8Array(texts.length * 32)
    texts.forEach((text, index) => {
      const key = decodeKey(text)
      assert(key !== null, 'a tip account is a key')
      keys.set(key, index * 32)
    })
    this.texts = [...texts]
    this.json = JSON.stringify(texts)
    this.#keys = keys
    this.#starts = Int32Array.from(texts, (_, index) => start(keys, index * 32))
  }

  /** Index of the tip account whose key is at `at`; -1 when it is not a tip account. */
  find(bytes: Uint8Array, at: number): number {
    const wanted = start(bytes, at)
    for (let index = 0; index < this.#starts.length; index++)
      if (this.#starts[index] === wanted && this.#isAt(index, bytes, at)) return index
    return -1
  }

  #isAt(index: number, bytes: Uint8Array, at: number): boolean {
    for (let byte = 4; byte < 32; byte++)
      if (this.#keys[index * 32 + byte] !== bytes[at + byte]) return false
    return true
  }
}

/**
 * The embedded chain's tip accounts, generated once and stored in the file, so that they stay the
 * same. Their private keys are discarded: tips there have no value.
 */
export function keptTipAccounts(path: string): readonly string[] {
  if (existsSync(path)) return readKept(path)
  const texts = Array.from({ length: generatedAccounts }, () =>
    encodeBase58(new Keypair(randomBytes(32)).publicKey),
  )
  const fresh = `${path}.${process.pid}`
  const text = `${JSON.stringify({ tipAccounts: texts }, null, 2)}\n`
  // On disk before it has the name: a power loss must not leave an empty file, which is damaged.
  writeFileSync(fresh, text, { mode: 0o600, flush: true })
  renameSync(fresh, path)
  return texts
}

function readKept(path: string): readonly string[] {
  try {
    const { tipAccounts } = JSON.parse(readFileSync(path, 'utf8')) as { tipAccounts?: unknown }
    if (isUsable(tipAccounts)) return tipAccounts
  } catch {
    // Reported below, like any other unusable content.
  }
  throw new Fault(
    'tip-accounts',
    `${path} does not contain tip accounts: repair it or move it away`,
  )
}

function isUsable(list: unknown): list is string[] {
  if (!Array.isArray(list) || list.length < 1 || list.length > tipAccountsMax) return false
  return list.every((text) => typeof text === 'string' && decodeKey(text) !== null)
}

function start(bytes: Uint8Array, at: number): number {
  return bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24)
}
